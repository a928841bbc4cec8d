"""The documentation as a site: Sphinx with MyST pages and notebooks, and the API from signatures and docstrings.

pip install -e ".[docs]" && sphinx-build -W docs build/site
"""

import importlib
import inspect
import pathlib
import pkgutil
import re

import kbert

HERE = pathlib.Path(__file__).parent
REFERENCE = HERE / "reference"  # written by each build, and not under version control

project = "kbert"
release = version = kbert.__version__
html_title = f"kbert {release}"
html_theme = "furo"  # light and dark
html_show_copyright = False
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
root_doc = "index"
exclude_patterns = ["maintainers"]
copybutton_exclude = ".linenos, .gp, .go"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # links to headings, as on GitHub
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
suppress_warnings = ["ref.python"]  # a word of a sentence that is the name of two attributes
autodoc_inherit_docstrings = False  # those of Keras are on Keras' own site
napoleon_custom_sections = [("Inputs", "params_style"), ("Outputs", "params_style"), ("Source", "notes_style")]


def write_reference() -> None:
    """Writes a page for each package with public names."""
    REFERENCE.mkdir(exist_ok=True)
    for old in REFERENCE.glob("*.md"):
        old.unlink()
    names = [f"kbert.{package.name}" for package in pkgutil.iter_modules(kbert.__path__) if package.ispkg]
    for package in [kbert, *map(importlib.import_module, names)]:
        if getattr(package, "__all__", ()):
            (REFERENCE / f"{package.__name__}.md").write_text(reference_page(package), encoding="utf-8")
    (REFERENCE / "kbert.options.md").write_text(options_page(), encoding="utf-8")


def reference_page(package) -> str:
    """The page of a package: its docstring, and each public name with signature and docstring."""
    lines = [f"# {package.__name__}", "", inspect.getdoc(package), "", "```{eval-rst}"]
    for name in package.__all__:
        found = getattr(package, name)
        if inspect.ismodule(found):  # it has a page of its own
            continue
        kind = "autoclass" if inspect.isclass(found) else "autofunction"
        lines += [f".. {kind}:: {package.__name__}.{name}", *["   :no-index:"] * (package is kbert), ""]
    return "\n".join([*lines, "```", ""])


def options_page() -> str:
    """The page of the groups of options that the verbs take."""
    lines = ["# kbert.options", "", "Groups of options, which a function takes as one object. On the command line, in"]
    lines += ["``--config`` files and in settings.json each field has its own name.", ""]
    lines += ["```{eval-rst}"]
    for verb in (kbert.finetune, kbert.pretrain):
        for parameter in inspect.signature(verb).parameters.values():
            if isinstance(parameter.default, kbert.options.Options):
                group = type(parameter.default)
                line = f".. autoclass:: {group.__module__}.{group.__name__}"
                lines += [line, ""] if line not in lines else []
    return "\n".join([*lines, "```", ""])


def add_sidebar(app, name, source) -> None:
    """Makes the sidebar from the tables of index.md: the heading of a table is a caption, its links are the pages."""
    if name.startswith("notebooks/"):
        return
    # A page outside this folder is not part of the site.
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./([\w/.-]+\.md)[^)]*\)", r"\1 (`\2` in the repository)", source[0])
    if name == "api":  # each package is a page
        source[0] = re.sub(r"`(kbert(?:\.\w+)?)`(?=[^\n]*\|)", _package_link, source[0])
    if name != "index":
        return
    trees = []
    for table in re.split(r"\n\n+", source[0]):
        pages = re.findall(r"^\| \[[^\]]+\]\(([\w/-]+)\.(?:md|ipynb)\)", table, re.MULTILINE)
        if pages:
            caption = re.match(r"\|([^|]*)\|", table).group(1).strip()
            trees.append(sidebar(caption, pages))
    reference = [f"reference/{path.stem}" for path in sorted(REFERENCE.glob("*.md"))]
    source[0] += "\n\n" + "\n\n".join([*trees, sidebar("API", reference)])


def _package_link(match):
    page = REFERENCE / f"{match[1]}.md"
    return f"[{match[0]}](reference/{match[1]}.md)" if page.exists() else match[0]


def sidebar(caption: str, pages: list[str]) -> str:
    """A hidden table of contents, which the theme shows beside each page."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])


def as_rst(app, what, name, obj, options, lines) -> None:
    """Makes `code` in docstrings a literal, stars and bars plain characters, and `Inputs: a dict:` a list."""
    is_list = is_example = False
    for number, line in enumerate(lines):
        is_example = line.endswith("::") or (is_example and line[:1] in ("", " "))
        if is_example:
            continue
        parts = re.split(r"(``.+?``|`[^`]+`)", line)
        for place, part in enumerate(parts):
            is_code = part.startswith("`")
            parts[place] = f"``{part.strip('`').strip()}``" if is_code else re.sub(r"([*|]|_\b)", r"\\\1", part)
        line = re.sub(r"(: [A-Z])\.$", r"\1\\.", "".join(parts))  # not the first item of a list A., B.
        if is_list and line.startswith("    "):
            line = ("  " if line[4] == " " else "- ") + line[4:].lstrip()
        elif line:
            is_list = bool(re.match(r"(Inputs|Outputs|Attributes)[: ].+:$", line))
            line += "\n" * is_list
        lines[number] = line
    lines[:] = "\n".join(lines).split("\n")


def short_signature(app, what, name, obj, options, signature, return_annotation):
    """Gives types without modules and bounds; of a class the arguments of `__init__`, not those of Keras' `__new__`."""
    if what not in ("class", "function", "method") or signature is None:
        return None
    text = str(inspect.signature(obj.__init__ if what == "class" else obj))
    text = re.sub(r"^\(self(, )?", "(", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # types that are imported for type checkers alone
    text = re.sub(r"(?:typing\.)?Annotated\[(\w+), Bounds\(.*?\)\]", r"\1", text)
    text = re.sub(r"(?:typing\.)?Annotated\[((?:(?!Annotated).)*?), 'passing'\]", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)
    arguments, _, returned = text.partition(" -> ")
    return arguments, None if what == "class" else returned or None


def setup(app) -> None:
    """What Sphinx calls."""
    write_reference()
    app.connect("source-read", add_sidebar)
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-process-docstring", as_rst, priority=400)  # before napoleon
