from torch import nn

from every_byte.account import account, numbers


def mlp(d):
    return nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))


found = account(
    mlp, numbers("b", "d"), loss=lambda y, x: (y - x).square().mean(), gpu="t4-16gb", optimizer="SGD", b=512, d=1024
)
print(f"{found.peak_bytes:,d} bytes at the peak, {found.at(b=513).peak_bytes:,d} with one row more")

form = found.formula()
print(form.formula())
print("exact" if form.is_exact else form)
print(f"{form.bytes(b=4096):,d} bytes requested, predicted for 4,096 rows")

print(found.largest("b", budget="1GiB"))
advice = found.advice(budget="110MiB", sizes=False)
print(advice.plain.fits, advice.best.name if advice.best else f"none fits; the lowest is {advice.lowest.name}")
