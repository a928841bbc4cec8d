"""Makes the pictures of the pages, and the runs that they show, with Chromium.

    python docs/maintainers/make_screenshots.py --encoder all-MiniLM-L6-v2 --data data
    python docs/maintainers/make_screenshots.py --only playground_masking playground_attention

It needs the extra "browser" (pip install -e ".[browser]"; Debian: chromium-driver). The pictures of the playground and
the report show the models of saved_models and need nothing else. --data holds GLUE's, CoNLL's and
SQuAD's files in the folders glue, conll2003 and squad. --runs has a pre-training, tiny (docs/pretraining.md); of the
other runs, which take minutes each, those that the pictures show and that are not there are made. screenshots/ has a
file for each kind of picture.
"""

import argparse
import pathlib
import sys

from screenshots import playground, report, tensorboard, written
from screenshots.pictures import IMAGES, ROOT, Pictures
from screenshots.runs import make_runs, runs_of

KINDS = (playground, tensorboard, report, written)  # each has PICTURES: name → what it shows


def main():
    names = [name for kind in KINDS for name in kind.PICTURES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--runs", default=ROOT / "runs", type=pathlib.Path, metavar="DIR", help="what is shown (default: runs)")
    add("--encoder", default="all-MiniLM-L6-v2", metavar="SOURCE", help="pre-trained, of any size")
    add("--data", default=ROOT / "data", type=pathlib.Path, metavar="DIR", help="real data")
    add("--only", nargs="+", default=names, choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    args = parser.parse_args()
    if set(args.only) - {*playground.PICTURES, *report.PICTURES} and not (args.runs / "tiny/model").is_dir():
        parser.error(f"expected a finished pre-training. Received: --runs {args.runs}, without tiny/model")
    shown = [kind.PICTURES[name] for kind in KINDS for name in kind.PICTURES if name in args.only]
    make_runs(args.runs, args.encoder, args.data, runs_of(*shown))
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the browser of the tests
    from helpers.browser import start_browser

    pictures = Pictures(start_browser(), args.runs, args.encoder)
    try:
        for kind in KINDS:
            if wanted := [name for name in kind.PICTURES if name in args.only]:
                kind.make(pictures, wanted)
    finally:
        pictures.browser.driver.quit()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
