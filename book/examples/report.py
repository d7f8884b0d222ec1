import torch

from every_byte import Report, SimulatedGPU

with SimulatedGPU("rtx3090-24gb", cuda=True) as gpu:
    layer = torch.nn.TransformerEncoderLayer(1024, 16, batch_first=True, device="cuda")
    layer(torch.randn(448, 512, 1024, device="cuda")).sum().backward()
    report = Report.of(gpu)

print(report.peak_place)
print(f"{report.peak_reserved_bytes:,d} bytes reserved at most, of {report.room_bytes:,d}")
print("exact" if report.is_exact else report.notes)
for verdict in report.fits.verdicts:
    fits = "fits" if verdict.fits else "does not"
    print(f"{verdict.gpu:<16}{fits:<10}{verdict.margin_bytes:>16,d} bytes")
report.save("report.html")  # a page for a browser; print(report) has it as text
