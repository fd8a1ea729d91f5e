"""A batch file is read whole, and what is wrong with it is told line by line."""

import io
import json

import pytest

from countermand.agents.batch import MAX_LINES, Batch, BatchInvalid, read_batch

ORDER = {"plan": "small", "region": "eu-west", "email": "ada@example.com", "hostname": "ada.example.dev"}
WORDS = "a small environment in eu-west for ada@example.com at ada.example.dev, 1 load balancers, 1 machines"


def read(content: str | bytes, name: str = "orders.jsonl") -> Batch:
    raw = content.encode() if isinstance(content, str) else content
    return read_batch(io.BytesIO(raw), name=name)


def line(**change: object) -> str:
    return json.dumps(ORDER | change) + "\n"


def told(batch: Batch) -> list[tuple[int, str]]:
    return [(bad.number, bad.field) for bad in batch.bad]


def test_fields_become_the_words_of_an_order() -> None:
    batch = read(line(id="a", model="stub:careless", max_attempts=2))
    (only,) = batch.lines
    assert (only.id, only.text, only.model, only.max_attempts) == ("a", WORDS, "stub:careless", 2)


def test_free_text_is_taken_as_it_is_and_a_line_without_id_is_called_by_its_number() -> None:
    batch = read('\n{"text": " two small environments, please "}\n')
    assert [(one.id, one.text) for one in batch.lines] == [("2", "two small environments, please")]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_csv_is_read_whatever_the_order_of_its_columns(start: bytes, end: str) -> None:
    rows = ["hostname,quantity,email,plan,Region", "ada.example.dev,,ada@example.com,small,eu-west", ""]
    batch = read(start + end.join(rows).encode(), "orders.csv")
    assert [(one.number, one.text) for one in batch.lines] == [(2, WORDS)]


def test_a_name_that_tells_nothing_is_read_by_its_first_character() -> None:
    assert read(line(), "-").lines[0].text == WORDS
    assert read("id,text\na,an order\n", "-").lines[0].id == "a"


def test_identical_lines_of_one_id_are_one_line() -> None:
    batch = read(line(id="a") + line(id="b") + line(id="a"))
    assert [one.id for one in batch.lines] == ["a", "b"]
    assert not batch.bad


def test_lines_of_one_id_that_differ_are_all_refused() -> None:
    batch = read(line(id="a") + line(id="b") + line(id="a", plan="large"))
    assert [one.id for one in batch.lines] == ["b"]
    assert told(batch) == [(1, "id"), (3, "id")]


def test_a_line_without_id_is_never_taken_for_the_one_that_bears_its_number_as_id() -> None:
    batch = read(line(id="2") + line() + line(id="b"))
    assert [one.id for one in batch.lines] == ["b"]
    assert told(batch) == [(1, "id"), (2, "id")]
    assert "no id but its number" in batch.bad[0].reason


@pytest.mark.parametrize(
    ("content", "field", "reason"),
    [
        ("{nonsense\n", "line", "not JSON"),
        ("[1, 2]\n", "line", "not a JSON object"),
        ('{"text": "a"} x\n', "line", "not JSON: Extra data, at character 15"),
        ('{"text": "a", "text": "b"}\n', "line", "named twice"),
        ('{"text": NaN}\n', "line", "NaN is no number"),
        ("[" * 60_000 + "\n", "line", "not JSON"),
        ('{"text": "' + "x" * 10_000_000 + '"}\n', "line", "bytes, a line has"),
        (b'{"text": "caf\xe9"}\n', "line", "not UTF-8: byte 0xe9 at character 14"),
        (line(quantity="two"), "quantity", "valid integer"),
        (line(quantity=True), "quantity", "valid integer"),
        (line(plan="huge"), "plan", "'small', 'medium' or 'large', not \"huge\""),
        (line(email="ada"), "email", "not a valid email"),
        (line(colour="red"), "colour", "no such field"),
        (line(text="and text"), "plan", "beside text"),
        (line(id="a/b"), "id", "pattern"),
        (line(model="stub:nobody"), "model", "no persona"),
        (line(max_attempts=0), "max_attempts", "greater than or equal to 1"),
        ('{"text": "  "}\n', "text", "at least 1 character"),
        ('{"plan": "small"}\n', "region", "missing"),
    ],
)
def test_a_bad_line_is_told_by_number_field_and_reason_and_the_next_is_read(
    content: str | bytes, field: str, reason: str
) -> None:
    raw = content.encode() if isinstance(content, str) else content
    batch = read(raw + line(id="good").encode())
    assert [one.id for one in batch.lines] == ["good"]
    assert (1, field) in told(batch)
    assert reason in next(bad.reason for bad in batch.bad if bad.field == field)


def test_csv_rows_that_do_not_fit_are_told_and_the_others_read() -> None:
    rows = [b"id,text", b"a,an order,more", b'b,"x"y', b"c,caf\xe9", b"d,an order", b"e," + b"x" * 70_000, b"f,"]
    batch = read(b"\n".join(rows), "orders.csv")
    assert [(one.number, one.id) for one in batch.lines] == [(5, "d")]
    assert {bad.number: bad.field for bad in batch.bad} == {2: "line", 3: "line", 4: "line", 6: "line", 7: "hostname"}


def test_a_quote_that_is_never_closed_swallows_no_other_line() -> None:
    batch = read('id,text\na,"an order\nb,an order\nc,"an ""order""\nd,"an, order"\n', "orders.csv")
    assert [(one.number, one.id, one.text) for one in batch.lines] == [(3, "b", "an order"), (5, "d", "an, order")]
    assert [(bad.number, bad.reason) for bad in batch.bad] == [
        (2, "not CSV: a quote that is not closed on its line"),
        (4, "not CSV: a quote that is not closed on its line"),
    ]


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"", "orders.jsonl", "empty"),
        (b"\xef\xbb\xbf \n\n", "orders.csv", "empty"),
        (b"\x7fELF\x00\x01", "orders.jsonl", "binary, or UTF-16"),
        ("id,text\n".encode("utf-16"), "orders.csv", "binary, or UTF-16"),
        (b"id,text\n", "orders.csv", "empty"),
        (b'[\n{"text": "a"}\n]\n', "orders.json", "JSON over several lines"),
        (b"id,colour\na,red\n", "orders.csv", "no such field as 'colour'"),
        (b"id;text\na;an order\n", "orders.csv", "separated by commas"),
        (b"id,text,id\na,b,c\n", "orders.csv", "'id' twice"),
        (b"id,text\n" + b"".join(b"%d,x\n" % n for n in range(MAX_LINES + 1)), "orders.csv", "a batch holds"),
    ],
)
def test_a_file_that_is_no_batch_is_refused_in_one_line(content: bytes, name: str, reason: str) -> None:
    with pytest.raises(BatchInvalid, match=reason) as refused:
        read(content, name)
    assert str(refused.value).startswith(f"{name}: ")
    assert "\n" not in str(refused.value)
