// What `muster model run` shares with Python: values on the command line, and arrays as numpy
// prints them. Expected texts were printed by numpy 1.24.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "muster/cli/numpy_text.h"
#include "muster/cli/python_literal.h"
#include "muster/testing/message_of.h"

namespace muster::cli {
namespace {

using graph::TensorValue;
using ::testing::HasSubstr;
using testing::message_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

std::string floats(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  return numpy_text(TensorValue::of<float>(std::move(shape), values));
}

TEST(NumpyText, AlignsFloats) {
  EXPECT_EQ(floats({2, 1}, {2.5F, 3}), "[[2.5]\n [3. ]]");
  EXPECT_EQ(floats({3}, {0.1F, 0.2F, 1.0F / 3}), "[0.1        0.2        0.33333334]");
  EXPECT_EQ(floats({3}, {-1, 10, 100.25F}), "[ -1.    10.   100.25]");
  EXPECT_EQ(floats({3}, {1e-5F, 1, 2}), "[1.e-05 1.e+00 2.e+00]");
  EXPECT_EQ(floats({2}, {123456789.0F, -1.5F}), "[ 1.2345679e+08 -1.5000000e+00]");
  EXPECT_EQ(floats({3}, {kNaN, 1, -kInfinity}), "[ nan   1. -inf]");
  EXPECT_EQ(floats({1}, {kNaN}), "[nan]");
  EXPECT_EQ(floats({2, 0}, {}), "[]");
  EXPECT_EQ(numpy_text(TensorValue::vector<double>({1.0 / 3, 1e-3})), "[0.33333333 0.001     ]");
}

TEST(NumpyText, SeparatesBlocksAndBreaksLines) {
  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), 0.0F);
  EXPECT_EQ(floats({2, 2, 2}, values), "[[[0. 1.]\n  [2. 3.]]\n\n [[4. 5.]\n  [6. 7.]]]");
  std::vector<std::int64_t> many(30);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_EQ(numpy_text(TensorValue::vector(many)),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
            " 24 25 26 27 28 29]");
}

TEST(NumpyText, LeavesTheMiddleOfLargeArraysOut) {
  std::vector<float> values(2000);
  std::iota(values.begin(), values.end(), 0.0F);
  EXPECT_EQ(floats({20, 100}, values),
            "[[0.000e+00 1.000e+00 2.000e+00 ... 9.700e+01 9.800e+01 9.900e+01]\n"
            " [1.000e+02 1.010e+02 1.020e+02 ... 1.970e+02 1.980e+02 1.990e+02]\n"
            " [2.000e+02 2.010e+02 2.020e+02 ... 2.970e+02 2.980e+02 2.990e+02]\n"
            " ...\n"
            " [1.700e+03 1.701e+03 1.702e+03 ... 1.797e+03 1.798e+03 1.799e+03]\n"
            " [1.800e+03 1.801e+03 1.802e+03 ... 1.897e+03 1.898e+03 1.899e+03]\n"
            " [1.900e+03 1.901e+03 1.902e+03 ... 1.997e+03 1.998e+03 1.999e+03]]");
}

TEST(NumpyText, ShowsOtherTypes) {
  EXPECT_EQ(numpy_text(TensorValue::vector<std::int64_t>({-1, 20})), "[-1 20]");
  EXPECT_EQ(numpy_text(TensorValue::of<bool>({2}, std::array{true, false})), "[ True False]");
  EXPECT_EQ(numpy_text(TensorValue::of_strings({2, 1}, {">50K", "it's\n\xC3\xA9"})),
            "[[b'>50K']\n [b\"it's\\n\\xc3\\xa9\"]]");
  EXPECT_EQ(numpy_text(TensorValue::scalar<float>(0.1F)), "0.1");
  EXPECT_EQ(numpy_text(TensorValue::scalar<float>(3)), "3.0");
  EXPECT_EQ(numpy_text(TensorValue::scalar<double>(1e-5)), "1e-05");
  EXPECT_EQ(numpy_text(TensorValue::scalar<bool>(true)), "True");
  EXPECT_EQ(numpy_text(TensorValue::scalar<std::int32_t>(7)), "7");
}

}  // namespace
}  // namespace muster::cli
