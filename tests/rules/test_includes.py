"""A room includes only from itself and from the rooms that src/CMakeLists.txt lists after USES."""

import re

from rules import tree

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)

# Packages that one room hides, so that each can be replaced by changing that room alone.
HIDDEN_PACKAGES = ("boost/", "simdjson", "prometheus/", "pcre2", "utf8proc", "xxhash", "yaml-cpp/", "CLI/")


def include_faults(files, rooms):
    """files: {"src/ROOM/x.cc": text}. One line for every include that the table does not allow."""
    faults = []
    for path, text in files.items():
        room = path.split("/")[1]
        for quote, included in INCLUDE.findall(text):
            if quote != '"':
                continue
            other = included.split("/")[0]
            if room not in rooms:
                faults.append(f"{path}: {room} is no room of src/CMakeLists.txt")
                break
            if other not in rooms:
                faults.append(f'{path}: "{included}" names no room; write "room/file.h"')
            elif other != room and other not in rooms[room]:
                faults.append(
                    f'{path}: {room} may not include "{included}"; it uses {", ".join(rooms[room]) or "nothing"}'
                )
            elif f"src/{included}" not in files:
                faults.append(f'{path}: "{included}" does not exist')
    return faults


def order_faults(rooms):
    """A room uses rooms above it only."""
    names = list(rooms)
    return [
        f"{room} uses {used}, which is not above it"
        for position, room in enumerate(names)
        for used in rooms[room]
        if used not in names[:position]
    ]


def package_faults(files):
    """Packages of HIDDEN_PACKAGES that more than one room includes."""
    users = {package: set() for package in HIDDEN_PACKAGES}
    for path, text in files.items():
        for quote, included in INCLUDE.findall(text):
            for package in HIDDEN_PACKAGES:
                if quote == "<" and included.startswith(package):
                    users[package].add(path.split("/")[1])
    return [
        f"{package} is included by {', '.join(sorted(where))}" for package, where in users.items() if len(where) > 1
    ]


def test_includes():
    assert not include_faults(tree.sources("src"), tree.rooms())


def test_rooms_use_rooms_above_them():
    rooms = tree.rooms()
    assert len(rooms) > 10
    assert not order_faults(rooms)


def test_each_package_hides_in_one_room():
    assert not package_faults(tree.sources("src"))


def test_every_folder_is_a_room():
    folders = {path.name for path in (tree.ROOT / "src").iterdir() if path.is_dir()}
    assert folders <= set(tree.rooms())


class TestTheseRulesCanFail:
    ROOMS = tree.parse_rooms(
        "unspool_room(base LINK fmt::fmt)\nunspool_room(json\n  USES base)\nunspool_room(http USES base)\n"
    )

    def test_the_table_is_read(self):
        assert self.ROOMS == {"base": [], "json": ["base"], "http": ["base"]}

    def check(self, path, line):
        files = {"src/base/a.h": "", "src/json/b.h": '#include "base/a.h"\n', path: line}
        return include_faults(files, self.ROOMS)

    def test_allowed(self):
        assert self.check("src/http/c.cc", '#include <vector>\n#include "base/a.h"\n') == []

    def test_not_allowed(self):
        assert len(self.check("src/http/c.cc", '#include "json/b.h"\n')) == 1
        assert len(self.check("src/base/c.cc", '  #  include "json/b.h"\n')) == 1

    def test_not_by_room(self):
        assert len(self.check("src/http/c.cc", '#include "../base/a.h"\n')) == 1
        assert len(self.check("src/http/c.cc", '#include "base/missing.h"\n')) == 1
        assert len(self.check("src/attic/c.cc", '#include "base/a.h"\n')) == 1

    def test_upside_down(self):
        assert order_faults({"base": ["json"], "json": []}) == ["base uses json, which is not above it"]

    def test_package_in_two_rooms(self):
        files = {"src/json/a.cc": "#include <simdjson.h>\n", "src/http/a.cc": "#include <simdjson.h>\n"}
        assert len(package_faults(files)) == 1
