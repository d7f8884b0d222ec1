"""What a simulated GPU refuses by a rule, with the way out."""


def sparse_refusal(name: str, gpu: str) -> NotImplementedError:
    """Of what takes or makes a sparse tensor, a gradient of an embedding on its way to SGD is known alone."""
    return NotImplementedError(
        f"a tensor must be dense, or a sparse gradient on its way to SGD: {name} made or got a sparse one, and what it "
        f"takes is not known on the simulated GPU {gpu}; use dense gradients (sparse=False in nn.Embedding and "
        "nn.EmbeddingBag)."
    )


def refused(error: Exception, name: str, gpu: str) -> Exception:
    """The error as it is, or, where a sparse tensor was asked for a storage, the rule."""
    return sparse_refusal(name, gpu) if "Cannot access storage of Sparse" in str(error) else error
