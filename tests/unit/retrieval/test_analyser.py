from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.retrieval import analyser
from strata.retrieval.analyser import MAX_TERM_CHARACTERS, analyse, beginning_of, query_terms
from strata.retrieval.bm25 import scores


def ranking(question: str, *texts: str) -> list[int]:
    """Places of the texts that hold a word of the question, best first."""
    counts = {place: {term: analyse(text).count(term) for term in analyse(text)} for place, text in enumerate(texts)}
    average = sum(sum(each.values()) for each in counts.values()) / len(counts)
    return [place for place, _ in scores(query_terms(question), counts, dict.fromkeys(counts, average))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("blob_sha", ["blob_sha", "blob", "sha"], id="snake_case"),
        pytest.param("buildRetrieve", ["buildretriev", "build", "retriev"], id="camelCase"),
        pytest.param("HTTPServerError", ["httpservererror", "http", "server", "error"], id="capitals before a word"),
        pytest.param("getURLs", ["geturl", "get", "url"], id="plural of capitals"),
        pytest.param("APIs", ["api"], id="plural of capitals alone"),
        pytest.param("Foo::bar", ["foo::bar", "foo", "bar"], id="scoped"),
        pytest.param("Store.put_all", ["store.put_all", "store", "put_all", "put", "all"], id="dotted"),
        pytest.param("__init__", ["init"], id="outer underscores"),
        pytest.param("sha256", ["sha256", "sha", "256"], id="letters before digits"),
        pytest.param("v4.2.1", ["4.2.1", "4.2", "4"], id="a version and what it begins with"),
        pytest.param("src/app.py", ["src/app.py", "src", "app.py", "app", "py"], id="a path, whole and split"),
        pytest.param("0xC0190034", ["0xc0190034"], id="a hexadecimal number stays whole"),
        pytest.param("9f86d08b", ["9f86d08b"], id="an abbreviated hash stays whole"),
        pytest.param("ORA-00942", ["ora-00942", "ora", "00942"], id="a dashed code"),
        pytest.param("E1101", ["e1101"], id="a code of one letter and digits"),
        pytest.param("C++ and C#", ["c++", "and", "c#"], id="languages named with signs"),
        pytest.param("don't What's L’Aquila", ["don", "what", "l", "aquila"], id="apostrophes"),
        pytest.param("ёлка ЕЛКА", ["елк", "елк"], id="ё is е"),
        pytest.param("за\u0301мок", ["замк"], id="a stress mark"),
        pytest.param("co\u00adop zero\u200dwidth", ["coop", "zerowidth"], id="invisible characters inside a word"),
        pytest.param("ｆｕｌｌ　ｗｉｄｔｈ ﬁle", ["full", "width", "file"], id="compatibility forms"),
        pytest.param("API-метод", ["api-метод", "api", "метод"], id="two scripts with a dash"),
        pytest.param("LLMсервис", ["llmсервис", "llm", "сервис"], id="two scripts glued"),
        pytest.param("Cервер", ["сервер"], id="a look-alike Latin letter in a Russian word"),
        pytest.param("日本語", ["日本", "本語"], id="a script without spaces"),
        pytest.param("Straße", ["strass"], id="case folding"),
        pytest.param("a.a", ["a.a", "a", "a"], id="repetitions count"),
    ],
)
def test_terms_of(text: str, expected: list[str]) -> None:
    assert analyse(text) == expected


@pytest.mark.parametrize("text", ["", "   ", "\n", "!!!", "🙂", "\u200b", "___", "&|!():*<->\\", "\x00", "\ud800"])
def test_text_without_a_letter_or_digit_has_no_terms(text: str) -> None:
    assert analyse(text) == []
    assert query_terms(text) == ()


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("RetrievalStatementBuilder.build_retrieve", id="the exact name"),
        pytest.param("retrieval statement builder", id="its words"),
        pytest.param("build retrieve", id="the words of a part"),
        pytest.param("retrievalstatementbuilder", id="the name in lower case"),
    ],
)
def test_identifier_is_found_by_its_name_and_by_its_words(question: str) -> None:
    texts = [
        "a retrieval of other things",
        "self.RetrievalStatementBuilder.build_retrieve(x)",
        "statement of a builder",
    ]
    assert ranking(question, *texts)[0] == 1


@pytest.mark.parametrize(
    ("exact", "twin"),
    [
        ("99933227-08bb-46f5-960c-6a2ec3ddaab4", "99933227-08bb-46f5-960c-6a2ec3ddaab5"),
        ("0xC0190034", "0xC0190035"),
        ("ORA-00942", "ORA-00943"),
        ("E1101", "E1102"),
        ("HTTP 429", "HTTP 428"),
        ("4.2.1", "4.2.2"),
        ("src/app/search.py", "src/app/research.py"),
    ],
)
def test_exact_code_comes_before_its_near_twin(exact: str, twin: str) -> None:
    texts = [f"It failed with {code} at night, see the page." for code in (twin, exact, twin)]
    assert ranking(f"what does {exact.lower()} mean?", *texts)[0] == 1


@pytest.mark.parametrize("question", ["плагины", "рекомендации плагинов", "Как настроить ПЛАГИНАМИ"])
def test_russian_word_is_found_in_any_form(question: str) -> None:
    assert ranking(question, "другой текст", "Список: плагин, плагинов, плагинам.") == [1]


@pytest.mark.parametrize(
    "forms",
    [
        "ошибка ошибки ошибок ошибками",
        "список списка списков",
        "столбец столбца столбцов",
        "настройка настройки настроек",
        "сборка сборок",
        "узел узла узлы узлов",
        "уровень уровня уровни уровней",
        "перечень перечня",
        "день дня дни дней днём",
        "число чисел числа",
        "письмо писем письма",
        "окно окон окна",
        "степень степени степеней",
        "имя имени имен имён именем имена именами",
        "время времени временем",
        "требует требовать требуются требуем",
        "использует используем использовать",
        "порядок порядка порядку",
        "поток потоки потоков",
    ],
)
def test_forms_of_one_russian_word_are_one_term(forms: str) -> None:
    assert len(set(analyse(forms))) == 1


@pytest.mark.parametrize(
    ("word", "filler"),
    [
        ("имя", "им"),
        ("имена", "им"),
        ("меню", "меня"),
        ("тема", "тем"),
        ("почта", "почти"),
        ("приём", "при"),
        ("ИИ", "и"),
    ],
)
def test_russian_word_whose_stem_is_that_of_a_filler_is_asked_for(word: str, filler: str) -> None:
    assert query_terms(f"{word} пакета {filler}") == (*analyse(word), *analyse("пакета"))


@pytest.mark.parametrize(
    "forms",
    [
        "ошибка ошибки ошибок",
        "настройка настройки настроек",
        "требует требовать требуются",
        "имени имена именами",
        "query queries queried",
        "столбец столбцы",
        "строка строки строк",
        "блок блоки блоков",
        "поток потоки потоков",
        "человек человека",
        "библиотека библиотек",
    ],
)
def test_beginning_of_a_stem_is_that_of_every_form(forms: str) -> None:
    words = forms.split()
    for word in words:
        beginning = beginning_of(analyse(word)[0])
        assert len(beginning) >= min(4, *map(len, words))
        assert [form for form in words if not form.startswith(beginning)] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("включение", "включить"),
        ("исключения", "исключает"),
        ("использование", "используйте"),
        ("определение", "определяемый"),
        ("проверка", "проверить"),
        ("надёжность", "надежный"),
        ("производительность", "производительный"),
        ("нормализация", "нормализовать"),
    ],
)
def test_russian_noun_is_found_by_the_verb_or_adjective_that_it_is_made_of(one: str, other: str) -> None:
    assert ranking(f"как {one} помогает", "другой текст", f"Здесь {other} всё.") == [1]
    assert ranking(f"как {other} помогает", "другой текст", f"Здесь {one} всего.") == [1]


@pytest.mark.parametrize(
    ("one", "other"),
    [("передача", "перед"), ("большинство", "больше"), ("термин", "термит"), ("план", "платье"), ("сеть", "сетка")],
)
def test_russian_words_that_only_begin_alike_stay_apart(one: str, other: str) -> None:
    assert query_terms(f"{one} настройка")[0] not in analyse(other)


def test_polite_filler_does_not_hide_what_is_asked() -> None:
    question = "hi, could you please tell me how to reset the webhook secret quickly"
    texts = ["hi, could you please tell me how it is, please", "reset the webhook secret", "the secret of how"]
    assert ranking(question, *texts)[0] == 1


def test_signs_in_a_question_change_nothing() -> None:
    signs = "What's your password & policies | ! ( ) : * <-> \\ ‘L’Content’ ＇"
    assert set(query_terms(signs)) == set(query_terms("what your password policies L Content"))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("how does the lock work", ("lock", "work"), id="stop words go"),
        pytest.param("Как работает блокировка?", ("работ", "блокир"), id="Russian ones too"),
        pytest.param("to be or not to be", ("to", "be", "or", "not"), id="unless there is nothing else"),
        pytest.param("is_not", ("is_not",), id="a name made of them stays"),
        pytest.param("лог логи логов", ("лог",), id="each term once"),
    ],
)
def test_question_terms(question: str, expected: tuple[str, ...]) -> None:
    assert query_terms(question) == expected


@given(st.text())
def test_every_term_can_be_stored(text: str) -> None:
    for term in analyse(text):
        assert term
        assert not any(character.isspace() for character in term)
        assert any(character.isalnum() for character in term)
        assert len(term) <= MAX_TERM_CHARACTERS
        assert len(term.encode()) <= 512


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_a_question_asks_for_nothing_that_the_index_would_not_hold(text: str) -> None:
    assert set(query_terms(text)) <= set(analyse(text))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 400_000, id="one word"),
        pytest.param("ab/" * 100_000, id="one path"),
        pytest.param("a_" * 200_000, id="one name"),
        pytest.param("aB" * 200_000, id="one camel"),
        pytest.param("a." * 200_000, id="one chain"),
        pytest.param("я" * 200_000 + "a" * 200_000, id="two scripts"),
        pytest.param("яa" * 100_000, id="scripts in turn"),
        pytest.param("語" * 200_000, id="no spaces"),
        pytest.param("0f" * 200_000, id="hexadecimal"),
        pytest.param("a'" * 200_000, id="apostrophes"),
        pytest.param("1." * 100_000 + "1", id="a version without end"),
        pytest.param("__" * 200_000, id="underscores"),
    ],
)
def test_one_endless_token_is_cut_and_costs_no_more_than_its_length(text: str) -> None:
    begin_s = time.process_time()
    terms = analyse(text)
    assert time.process_time() - begin_s < 5
    assert all(len(term) <= MAX_TERM_CHARACTERS for term in terms)


def test_threads_agree() -> None:
    text = " ".join(f"слово{number}ами threading{number}ing" for number in range(3_000))
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(analyse(text))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(result == results[0] for result in results)


def test_what_is_remembered_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large project has new names in every file; a common word in between is not forgotten."""
    texts = [f"return self.{name}(value_{name})" for name in ("open", "put_all", "readLine", "x9", "flushed") * 3]
    expected = list(map(analyse, texts))
    remembered = analyser._TermsByToken()
    monkeypatch.setattr(analyser, "_terms_by_token", remembered)
    monkeypatch.setattr(analyser, "_MOST_CACHED_TOKENS", 6)
    for text, terms in zip(texts, expected, strict=True):
        assert analyse(text) == terms
        assert len(remembered) + len(remembered._earlier) <= 12
        assert "return" in remembered or "return" in remembered._earlier
