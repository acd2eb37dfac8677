"""GraphML as it is read: a stream of tags to lists of ids and cells, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from djgnn.errors import InputError
from djgnn.graph.files import open_ordinary

CHUNK = 2**20
DEEPEST = 64
LONGEST_TEXT = 2**20
LONGEST_TAG = 2**22
LONGEST_ADDRESS = 1000


@dataclass
class Key:
    """One declared attribute: its name, type and default, and the cells that were given."""

    name: str
    kind: str
    default: str | None = None
    ignored: bool = False
    cells: dict[int, str] = field(default_factory=dict)


@dataclass
class Parsed:
    """What a GraphML file says."""

    nodes: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    undirected: list[int] = field(default_factory=list)
    node_keys: dict[str, Key] = field(default_factory=dict)
    edge_keys: dict[str, Key] = field(default_factory=dict)


class Parser:
    """Reads GraphML with expat: no entity is ever expanded, no other file or address opened.

    A document type may be named but not declared inside the file: what such declarations add to
    every element would take more memory than the file suggests. So would endless texts and tags.

    Args:
        file: For the messages.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.found = Parsed()
        self.directed = True
        self.path: list[str] = []
        self.graphs = 0
        self.key: tuple[Key, ...] = ()
        self.row = -1
        self.text: list[str] | None = None
        self.length = 0
        self.depth = 0
        self.expat = expat.ParserCreate(namespace_separator=" ", intern=None)
        self.expat.buffer_text = True
        self.expat.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.CharacterDataHandler = self._characters
        self.expat.StartDoctypeDeclHandler = self._refuse_declarations
        self.expat.StartNamespaceDeclHandler = self._check_address
        self.expat.EntityDeclHandler = self._refuse_entity
        self.expat.ExternalEntityRefHandler = self._refuse_entity
        self.expat.SkippedEntityHandler = self._refuse_entity

    def parse(self) -> Parsed:
        """Read the whole file, a piece at a time.

        Raises:
            InputError: With file, line and remedy.
        """
        fed = 0
        try:
            with open_ordinary(self.file) as stream:
                while chunk := stream.read(CHUNK):
                    self.expat.Parse(chunk, False)
                    fed += len(chunk)
                    self._check_pending(fed - self.expat.CurrentByteIndex)
            self.expat.Parse(b"", True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise self._wrong("is not well-formed XML; write the file again", str(error)) from error
        if not self.graphs:
            raise self._wrong("has no <graph>; write it as GraphML", "an empty document")
        return self.found

    def _wrong(self, what: str, got: object) -> InputError:
        line = self.expat.CurrentLineNumber
        return InputError(f"{self.file}: line {line}: {what} (got {str(got)[:80]!r})")

    def _check_pending(self, size: int) -> None:
        """A tag that does not end is scanned anew with every piece of the file."""
        if size > LONGEST_TAG:
            raise self._wrong(
                f"has a tag or comment of more than {LONGEST_TAG} bytes; shorten it", size
            )

    def _check_length(self, size: int, what: str) -> None:
        if size > LONGEST_TEXT:
            raise self._wrong(
                f"{what} has more than {LONGEST_TEXT} characters; shorten it or leave it out",
                f"{size} or more",
            )

    def _check_address(self, prefix: str | None, address: str | None) -> None:
        if address and len(address) > LONGEST_ADDRESS:
            raise self._wrong(
                f"has a namespace of more than {LONGEST_ADDRESS} characters; shorten it", address
            )

    def _refuse_declarations(
        self, name: str, system: str | None, public: str | None, inside: bool
    ) -> None:
        if inside:
            raise self._wrong(
                "declares an entity or element types, which are never expanded; delete everything "
                "from '<!DOCTYPE' to ']>'",
                name,
            )

    def _refuse_entity(self, name: object, *_: object) -> int:
        raise self._wrong(
            "declares or uses an XML entity, which is never expanded; write the text itself", name
        )

    def _start(self, tag: str, given: Mapping[str, str]) -> None:
        name = tag.rsplit(" ", 1)[-1]
        if not self.path and name != "graphml":
            raise self._wrong("is not GraphML; the outermost tag must be <graphml>", f"<{name}>")
        if len(self.path) >= DEEPEST:
            raise self._wrong(f"is nested more than {DEEPEST} tags deep", f"<{name}>")
        self.path.append(name)
        if self.text is not None:  # drawings of an editor inside <data>
            return
        if name == "key":
            self._declare(given)
        elif name == "graph":
            self._open_graph(given)
        elif name in ("node", "edge"):
            if self.path[-2:-1] != ["graph"]:
                raise self._wrong(f"<{name}> must stand directly in <graph>", "/".join(self.path))
            self._node(given) if name == "node" else self._edge(given)
        elif name == "hyperedge":
            raise self._wrong("has a hyperedge; replace it by edges between two nodes", "hyperedge")
        elif name in ("data", "default"):
            self.text, self.length, self.depth = [], 0, len(self.path)
            if name == "data":
                self.key = self._declared(given)

    def _end(self, tag: str) -> None:
        name = self.path.pop()
        if self.text is None or len(self.path) >= self.depth:
            return
        text, self.text = "".join(self.text), None
        if name == "default" and self.path[-1] == "key":
            for key in self.key:
                key.default = text
        elif name == "data":
            for key in self.key:
                if self.row in key.cells:
                    raise self._wrong(f"gives {key.name[:80]!r} twice; keep one", text)
                key.cells[self.row] = text

    def _characters(self, text: str) -> None:
        if self.text is None or not self.key:
            return
        self.length += len(text)
        self._check_length(self.length, f"the text of {self.key[0].name[:80]!r}")
        self.text.append(text)

    def _declare(self, given: Mapping[str, str]) -> None:
        code = self._need(given, "id", "key")
        where, name = given.get("for", "all"), given.get("attr.name", code)
        ignored = "yfiles.type" in given
        kind = given.get("attr.type", "string")
        keys = []
        for place, table in (("node", self.found.node_keys), ("edge", self.found.edge_keys)):
            if where in (place, "all"):
                if code in table:
                    raise self._wrong("declares a <key> twice; keep one", code)
                table[code] = Key(name, kind, ignored=ignored)
                keys.append(table[code])
        self.key = tuple(keys)

    def _declared(self, given: Mapping[str, str]) -> tuple[Key, ...]:
        """The key that a <data> of the enclosing node or edge names."""
        place = self.path[-2] if len(self.path) > 1 else ""
        tables = {"node": self.found.node_keys, "edge": self.found.edge_keys}
        if place not in tables:
            return ()
        code = self._need(given, "key", "data")
        if code not in tables[place]:
            raise self._wrong(
                f"<data> of a {place} names no declared <key>; declare it with for='{place}'", code
            )
        return () if tables[place][code].ignored else (tables[place][code],)

    def _open_graph(self, given: Mapping[str, str]) -> None:
        self.graphs += 1
        if self.graphs > 1:
            raise self._wrong("has several or nested graphs; write one per file", "<graph> again")
        self.directed = given.get("edgedefault", "directed") != "undirected"

    def _node(self, given: Mapping[str, str]) -> None:
        self.row = len(self.found.nodes)
        self.found.nodes.append(self._need(given, "id", "node"))

    def _edge(self, given: Mapping[str, str]) -> None:
        self.row = len(self.found.sources)
        self.found.sources.append(self._need(given, "source", "edge"))
        self.found.targets.append(self._need(given, "target", "edge"))
        both = {"true": False, "false": True}.get(given.get("directed", ""), not self.directed)
        if both:
            self.found.undirected.append(self.row)

    def _need(self, given: Mapping[str, str], attribute: str, tag: str) -> str:
        if attribute not in given:
            raise self._wrong(f"<{tag}> has no {attribute!r}; add it", ", ".join(given) or "none")
        self._check_length(len(given[attribute]), f"{attribute!r} of <{tag}>")
        return given[attribute]
