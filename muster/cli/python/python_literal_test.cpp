#include "muster/cli/python/python_literal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::python {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(PythonLiteral, BecomesJson) {
  EXPECT_EQ(python_to_json("[[1, -2.5], (3, +4e2),]"), "[[1, -2.5], [3, 400.0]]");
  EXPECT_EQ(python_to_json(" ((7)) "), "7");
  EXPECT_EQ(python_to_json("((1,),)"), "[[1]]");
  EXPECT_EQ(python_to_json("()"), "[]");
  EXPECT_EQ(python_to_json("[.5, 1., True, False, None]"), "[0.5, 1.0, true, false, null]");
  EXPECT_EQ(python_to_json("[np.nan, -np.inf, numpy.inf]"), "[NaN, -Infinity, Infinity]");
  EXPECT_EQ(python_to_json(R"(['a"b', "it's", 'caf\xe9\u20ac\n', u'x', b'\x00\xff'])"),
            R"(["a\"b", "it's", "café€\n", "x", {"b64": "AP8="}])");
  EXPECT_EQ(python_to_json("[{'age': [39], \"w\": [b'P']}]"),
            R"([{"age": [39], "w": [{"b64": "UA=="}]}])");
}

TEST(PythonLiteral, KnowsAFewFunctionsOfNumpy) {
  EXPECT_EQ(python_to_json("np.ones((2, 3))"), "[[1, 1, 1], [1, 1, 1]]");
  EXPECT_EQ(python_to_json("np.zeros([1, 2], dtype=np.float32)"), "[[0, 0]]");
  EXPECT_EQ(python_to_json("np.zeros(2, 'int64')"), "[0, 0]");
  EXPECT_EQ(python_to_json("np.ones(())"), "1");
  EXPECT_EQ(python_to_json("np.arange(3)"), "[0, 1, 2]");
  EXPECT_EQ(python_to_json("np.arange(5, 0, -2, dtype='float32')"), "[5, 3, 1]");
  EXPECT_EQ(python_to_json("np.arange(1, 3, dtype=np.int32)"), "[1, 2]");
  EXPECT_EQ(python_to_json("np.array([[1], [2]], np.float32)"), "[[1], [2]]");
}

TEST(PythonLiteral, SaysWhereItCannotBeRead) {
  const auto failure = [](const std::string& text) {
    return message_of([&] { python_to_json(text); });
  };
  EXPECT_EQ(failure("[1, 2"), "at character 6: ']' was expected");
  EXPECT_THAT(failure("__import__('os').system('ls')"),
              HasSubstr("at character 1: neither a number"));
  EXPECT_THAT(failure("[1] + [2]"), HasSubstr("at character 5: text behind the value"));
  EXPECT_THAT(failure("'abc"), HasSubstr("does not end"));
  EXPECT_THAT(failure("'\\"), HasSubstr("an escape"));
  EXPECT_THAT(failure("'\\xg1'"), HasSubstr("without its digits"));
  EXPECT_THAT(failure("'\xFF'"), HasSubstr("no UTF-8"));
  EXPECT_THAT(failure(""), HasSubstr("at character 1"));
  EXPECT_THAT(failure("-"), HasSubstr("a number was expected"));
  EXPECT_THAT(failure("-True"), HasSubstr("behind the sign"));
  EXPECT_THAT(failure("007"), HasSubstr("begins with 0"));
  EXPECT_THAT(failure("1e999"), HasSubstr("cannot be read"));
  EXPECT_THAT(failure("{1: 2}"), HasSubstr("a key in quotes"));
  EXPECT_THAT(failure("np.ones((99999999, 99999999999))"), HasSubstr("more than 10,000,000"));
  EXPECT_THAT(failure("np.ones(-1)"), HasSubstr("a negative size"));
  EXPECT_THAT(failure("np.arange(9999999999)"), HasSubstr("more than 10,000,000"));
  EXPECT_THAT(failure("np.arange(1, 2, 0)"), HasSubstr("a step of 0"));
  EXPECT_THAT(failure(std::string(100'000, '[')), HasSubstr("too deep"));
}

}  // namespace
}  // namespace muster::python
