"""nearkin learns the distance that experts see, from ratings of pairs and class labels."""

from pathlib import Path

from nearkin._lazy import public_names

# the names stand in __init__.pyi, once, for type checkers and for this
__all__, __getattr__ = public_names(__name__, Path(__file__).with_suffix(".pyi"))


def __dir__() -> list[str]:
    return __all__
