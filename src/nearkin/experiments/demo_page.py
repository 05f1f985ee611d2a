"""The demonstration as one page that needs nothing else: pictures are inside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path

from nearkin.bundle import replaced
from nearkin.experiments.demo import Demonstration
from nearkin.experiments.lidc import CAVEATS
from nearkin.text import html_table

STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em;line-height:1.45}"
    "img{max-width:100%}table{margin:1em 0}caption{text-align:left;font-weight:bold}"
    "th,td{text-align:right}th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}"
    ".methods td:nth-child(2),.methods th:nth-child(2){text-align:right}"
    ".small{color:#555;font-size:.9em}"
)


def write_page(
    path: Path,
    found: Demonstration,
    methods: Sequence[dict[str, str]],
    verdicts: Sequence[str],
    figure: Path,
) -> Path:
    """Write the page: methods, one search, its explanation, the inferred space, caveats."""
    table = html_table("NDCG@10, leave one nodule out", methods, verdicts)
    parts = [
        "<h1>Which nodules are alike?</h1>",
        _text(
            "Nodules of LIDC-IDRI, as up to four radiologists marked them. Two readers give the "
            "features; how two others scored the same nodules gives derived ratings of pairs."
        ),
        "<h2>Methods, on nodules they have not seen</h2>",
        f'<div class="methods">{table}</div>',
        _picture(figure, "Mean NDCG of each method over draws of 30 nodules"),
        "<h2>A search</h2>",
        _text(
            f"A distance was learned from {found.n_ratings} derived ratings among "
            f"{len(found.model.objects)} nodules, and asked for those nearest to a new one, whose "
            f"class it was not told ({found.true_class})."
        ),
        found.neighbours._repr_html_(),
        _picture(found.pictures["neighbours"], "Outlines of the new nodule and of the nearest"),
        "<h2>Why is the first one near?</h2>",
        _text("The parts sum to the squared distance exactly."),
        found.explanation._repr_html_(),
        _picture(found.pictures["explanation"], "Parts of the squared distance"),
        "<h2>What the features miss</h2>",
        _text("Where ratings alone put the rated nodules, beyond what their features say."),
        _picture(found.pictures["latent"], "Inferred features of rated nodules by class"),
        "<h2>Read this first</h2>",
        "<ul>" + "".join(f"<li>{escape(caveat)}</li>" for caveat in CAVEATS) + "</ul>",
        '<p class="small">nearkin is research software, not a medical device.</p>',
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>nearkin: nodules</title><style>{STYLE}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )
    with replaced(path, binary=True) as file:
        file.write(page.encode())
    return path


def _text(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _picture(path: Path, alt: str) -> str:
    data = b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'
