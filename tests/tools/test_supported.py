"""The page of what is supported is what its tool writes, from recordings and from verdicts on public programs."""

from tools import supported


def test_the_page_is_as_the_tool_writes_it():
    assert supported.PAGE.read_text(encoding="utf-8") == supported.page()


def test_what_is_recorded_is_counted():
    by_name = {each.name: each for each in supported.FINE_TUNING}
    text = supported.recorded(by_name["bitsandbytes"])
    assert text.startswith("recorded: version 0.50.2, programs: ")
    on_a100 = [one for one, each in supported.LIBRARIES.recorded("a100").items() if each["warm"]]
    n = sum(subject != "triton_kernels" for subject, _ in on_a100)
    assert f"{n} on A100" in text
    assert 0 < supported._n_recorded(by_name["Liger Kernel"], "a100") < supported._n_recorded(by_name["Triton"], "a100")


def test_programs_that_differ_are_counted_as_such(tmp_path, monkeypatch):
    path = tmp_path / "verdicts.md"
    row = "| {} | 3 steps | held | 1 of 1 |  |  |  | to the byte | 0 | 3 steps | 0 | 0 of 0 | {} |\n"
    path.write_text(row.format("hf-llama", "right") + row.format("hf-gpt2", "differs") + row.format("hf-vit", "none"))
    monkeypatch.setattr(supported, "VERDICTS", path)
    assert supported.compared(supported.Library("x", "", packages=("transformers",))) == (
        "compared: 1 of 2 programs the same"
    )
    assert supported.compared(supported.Library("x", "", packages=("no-such-package",))) == ""
