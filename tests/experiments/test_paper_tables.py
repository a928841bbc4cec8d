"""The tables as data: the paper's figures, rows that can be trained, references that exist."""

import pytest
from experiments.paper_tables import TABLES, Row, Table, kept_every, milestone, needs_milestones, paper_table
from helpers.pretraining_fields import pretraining_fields, pretraining_settings

from kbert.finetuning.features.modes import FEATURE_MODES
from kbert.finetuning.finetune import finetune


@pytest.mark.parametrize("name", TABLES)
def test_every_row_can_be_pretrained_and_finetuned(name):
    fields = pretraining_fields(steps=100)
    table = paper_table(name)
    assert table.name == name and table.title and len(table.rows) > 1
    for row in table.rows:
        pretraining_settings(**fields | dict(row.pretraining))
        options = {name: value for name, value in row.finetuning.items() if name != "bilstm"}  # the recipe's own
        finetune.arguments(None, None, None, **options)
        assert row.feature_mode in (None, *FEATURE_MODES)
        assert (table.reference_of(row) is None) == (row.name in (table.reference, *FIRST))


FIRST = ("tiny (2/128/2)", "MLM after 20 % of the steps")  # rows of tables without one reference


def test_the_figures_of_the_paper():
    rows = {row.name: row for row in paper_table("table5").rows}
    assert rows["BERT"].paper == {"MNLI": 84.4, "QNLI": 88.4, "MRPC": 86.7, "SST-2": 92.7, "SQuAD": 88.5}
    assert rows["LTR & No NSP"].paper["SQuAD"] == 77.8 and rows["+ BiLSTM"].paper["SQuAD"] == 84.9
    assert rows["+ BiLSTM"].pretraining == rows["LTR & No NSP"].pretraining  # it is added at fine-tuning only
    assert paper_table("table6").paper_rows["24/1024/16"]["masked-LM perplexity"] == 3.23
    assert {row.name: row.paper["NER"] for row in paper_table("table7").rows}["concat-last-four"] == 96.1
    rows = {row.name: row for row in paper_table("table8").rows}
    assert rows["0/20/80"].pretraining == {"mask_token_rate": 0.0, "keep_rate": 0.2, "random_token_rate": 0.8}
    assert rows["100/0/0"].paper == {"MNLI": 84.3, "NER": 94.9, "NER concat-last-four": 94.0}
    assert rows["80/10/10"].pretraining == {}  # the pre-training that other tables have, too


def test_the_points_of_figure_5():
    rows = paper_table("figure5").rows
    assert [row.fraction for row in rows] == [0.2, 0.4, 0.6, 0.8, 1.0] * 2
    assert [milestone(1000, row.fraction) for row in rows[:5]] == [200, 400, 600, 800, 1000]
    assert [milestone(13, row.fraction) for row in rows[:5]] == [2, 4, 6, 8, 13] and kept_every(13) == 2
    assert rows[7].reference == rows[2].name and rows[7].paper_sign == -1
    assert [kept_every(steps) for steps in (4_999, 10_015, 500_015)] == [999, 2_000, 100_000]  # not 2003, a prime
    assert needs_milestones({}) and not needs_milestones({"whole_word": True})
    with pytest.raises(ValueError, match="at least 5 steps"):
        kept_every(4)


def test_the_sizes_of_table_6_are_chosen():
    rows = paper_table("table6", ["mini", "base"]).rows
    assert [row.pretraining["size"] for row in rows] == ["mini", "base"] and rows[1].reference == rows[0].name


def test_names_are_a_row_where_they_are_given():
    rows = paper_table("masking", names="names.txt").rows
    assert rows[1].name == "names" and rows[1].pretraining == {"names": "names.txt"}
    assert [row.name for row in rows if row.name != "names"] == [row.name for row in paper_table("masking").rows]


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match="must be one of .*table5.* Received: 'table9'"):
        paper_table("table9")
    with pytest.raises(ValueError, match="rows of different names"):
        Table(name="t", title="", source="", rows=(Row(name="a"), Row(name="a")))
    with pytest.raises(ValueError, match="expected a row as reference, of .'a'.. Received: 'b'"):
        Table(name="t", title="", source="", rows=(Row(name="a"),), reference="b")
