#!/usr/bin/env python3
"""Compares tuning/record.schema.json with the library: records that it writes satisfy the schema, and it rejects the
same lines as the schema, with an error that names the field.

  record_schema_test.py TEST_JIT    TEST_JIT is build/tests/test_jit
"""

import copy
import json
import pathlib
import subprocess
import sys
import unittest

try:
    import jsonschema
except ImportError:
    sys.exit(
        "record_schema_test.py needs the Python package jsonschema. Run tools/setup.sh, which installs it in "
        ".deps/venv."
    )

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/tests/test_jit")
SCHEMA = json.loads((ROOT / "tuning/record.schema.json").read_text())
OF_OTHER_TYPES = ([], {}, "x", 0.5, -1, True, None)


def output_of(test, prefix, lines=()):
    """The lines with this prefix that a test of TEST_JIT prints, for these lines of input."""
    command = [PROGRAM, f"--gtest_filter=RecordSchema.DISABLED_{test}", "--gtest_also_run_disabled_tests"]
    done = subprocess.run(
        command, input="".join(f"{line}\n" for line in lines), check=True, stdout=subprocess.PIPE, text=True
    )
    return [line[len(prefix) :] for line in done.stdout.splitlines() if line.startswith(prefix)]


def resolved(schema):
    return SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema


def fields_of(value, schema, path=()):
    """The path and the schema of each field of a record, from the outside to the inside."""
    schema = resolved(schema)
    children = enumerate(value) if isinstance(value, list) else schema.get("properties", {}).items()
    for key, child in children:
        child = schema["items"] if isinstance(value, list) else child
        yield (*path, key), resolved(child)
        if isinstance(value, list) or key in value:
            yield from fields_of(value[key], child, (*path, key))


def values_for(schema):
    """Values at the limits of a field and beyond, and values of other types."""
    yield from OF_OTHER_TYPES
    for limit in ("minimum", "maximum"):
        if limit in schema:
            yield from (schema[limit] - 1, schema[limit], schema[limit] + 1)
    if "maximum" in schema:
        yield 2**64 - 1
    if "minLength" in schema:
        yield from ("x" * (schema["minLength"] - 1), "x" * schema["minLength"])
    yield from schema.get("enum", ())


def changed(record, path, *value):
    """A copy with another value at this path, or without the field."""
    out = copy.deepcopy(record)
    parent = out
    for key in path[:-1]:
        parent = parent[key]
    if value:
        parent[path[-1]] = value[0]
    elif isinstance(parent, dict):
        parent.pop(path[-1], None)
    return out


def changes_of(record):
    """All changed records, each with the path of the change."""
    yield ("x",), changed(record, ("x",), 1)
    for path, schema in fields_of(record, SCHEMA):
        yield path, changed(record, path)
        for value in values_for(schema):
            yield path, changed(record, path, value)
        if schema.get("type") == "object":
            yield (*path, "x"), changed(record, (*path, "x"), 1)


class RecordSchema(unittest.TestCase):
    def setUp(self):
        self.validator = jsonschema.Draft202012Validator(SCHEMA)
        self.records = [json.loads(line) for line in output_of("PrintsRecordsOfAllKinds", "record: ")]
        self.assertTrue(self.records)

    def test_the_schema_is_valid(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def test_records_of_the_library_satisfy_it(self):
        for record in self.records:
            self.assertEqual([error.message for error in self.validator.iter_errors(record)], [])

    def test_the_library_rejects_the_same_lines_and_names_the_field(self):
        changes = [change for record in self.records for change in changes_of(record)]
        problems = output_of(
            "PrintsTheProblemOfEachLineOfItsInput", "problem: ", [json.dumps(record) for _, record in changes]
        )
        self.assertEqual(len(problems), len(changes))
        self.assertGreater(len(changes), 1000)
        for (path, record), problem in zip(changes, problems):
            self.assertEqual(problem == "", self.validator.is_valid(record), f"{path}: {problem or 'accepted'}")
            if problem:
                name = [key for key in path if isinstance(key, str)][-1]
                self.assertIn(name, problem)


if __name__ == "__main__":
    unittest.main()
