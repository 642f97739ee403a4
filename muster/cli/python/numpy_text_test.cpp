// Expected texts were printed by numpy 1.24.
#include "muster/cli/python/numpy_text.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>

#include "muster/base/random.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"

namespace muster::python {
namespace {

using graph::TensorValue;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

// ------------------------------------------------------------------------------ numpy itself

/// A tensor and the Python expression of the same array.
struct Printed {
  TensorValue tensor;
  std::string expression;
};

template <typename T>
std::string python_number(T value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value < 0 ? "float('-inf')" : "float('inf')";
  return fmt::format("float('{:.17g}')", value);
}

template <typename T>
Printed numbers_case(std::vector<std::int64_t> shape, const std::vector<T>& values) {
  std::vector<std::string> words;
  for (const T value : values) words.push_back(python_number(static_cast<double>(value)));
  return {TensorValue::of<T>(shape, values),
          fmt::format("numpy.array([{}], numpy.float{}).reshape([{}])", fmt::join(words, ", "),
                      8 * sizeof(T), fmt::join(shape, ", "))};
}

template <typename T>
void add_float_cases(std::vector<Printed>& cases) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T inf = std::numeric_limits<T>::infinity();
  const auto add = [&](std::vector<std::int64_t> shape, const std::vector<double>& values) {
    cases.push_back(
        numbers_case<T>(std::move(shape), std::vector<T>(values.begin(), values.end())));
  };
  add({4}, {0.5, 1.25, -3, 100});
  add({3}, {1e-10, 1e10, 3});
  add({5}, {double(nan), 1, double(inf), -2.5, double(-inf)});
  add({3}, {double(nan), 1e20, double(-inf)});
  add({2}, {double(nan), double(inf)});
  add({1}, {1e30});
  add({2}, {1e30, -1});
  add({0}, {});
  add({3, 0, 2}, {});
  add({2}, {123456789, 0.001});
  add({2}, {1e17, 1});
  add({2, 3}, {1e-3, 5e5, -7.25, 9111.1055, 2.0 / 3, 3e-5});
  add({2, 2}, {99999992, 1234567, 16777217, 1000001});
  add({3}, {0.0001, 0.05, 0.1});
  add({3}, {0, -0.0, 1.0 / 3});
  add({2}, {1.17549435e-38, 1});
  add({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 1e6});
  add({}, {99999992});
  add({}, {1e15});
  add({}, {1e16});
  add({}, {-0.0001});
}

/// As many numbers as the shape has, of many exponents.
template <typename T>
Printed random_case(std::vector<std::int64_t> shape, Random& random, double exponents) {
  std::vector<T> values;
  const std::int64_t count = graph::element_count(shape).value();
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(
        static_cast<T>(random.normal() * std::pow(10, random.uniform(-exponents, exponents))));
  }
  return numbers_case<T>(std::move(shape), values);
}

std::vector<Printed> printed_cases() {
  std::vector<Printed> cases;
  add_float_cases<float>(cases);
  add_float_cases<double>(cases);
  Random random(/*key=*/5);
  for (int i = 0; i < 60; ++i) {
    cases.push_back(random_case<float>({4, 5}, random, 0.1 * i));
    cases.push_back(random_case<double>({4, 5}, random, 0.2 * i));
    cases.push_back(random_case<float>({17}, random, 0.2 * i));
  }
  for (const std::int64_t rows : {1000, 1001, 1200}) {
    cases.push_back(random_case<float>({rows}, random, 0));
    cases.push_back(random_case<float>({rows, 1}, random, 1));
    cases.push_back(random_case<double>({rows / 10, 11}, random, 3));
  }
  std::vector<std::uint8_t> bytes(1200);
  std::iota(bytes.begin(), bytes.end(), 0);
  cases.push_back(
      {TensorValue::of<std::uint8_t>({1200}, bytes), "numpy.arange(1200).astype(numpy.uint8)"});
  bytes.resize(60);
  cases.push_back({TensorValue::of<std::uint8_t>({3, 20}, bytes),
                   "numpy.arange(60).astype(numpy.uint8).reshape([3, 20])"});
  // TensorFlow hands strings out as objects.
  std::vector<std::string> words;
  for (int i = 0; i < 30; ++i) words.push_back(fmt::format("word {}", i * i));
  cases.push_back({TensorValue::of_strings({30}, words),
                   "numpy.array([b'word %d' % (i * i) for i in range(30)], dtype=object)"});
  cases.push_back(
      {TensorValue::of_strings({15, 2}, words),
       "numpy.array([b'word %d' % (i * i) for i in range(30)], dtype=object).reshape([15, 2])"});
  return cases;
}

// Numbers of 16 bits, alone (some, around every power of two, or all) and in arrays of seven.
std::vector<Printed> half_cases() {
  std::vector<std::uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  const auto half = [&](std::vector<std::int64_t> shape, std::size_t first, std::size_t count) {
    TensorValue made{.dtype = graph::DataType::kHalf, .shape = std::move(shape)};
    made.bytes.assign(reinterpret_cast<const char*>(&bits[first]), 2 * count);
    return made;
  };
  std::vector<Printed> cases;
  const bool all = testing::are_tests_long();
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (!all && i % 0x400 > 1 && i % 0x400 < 0x3FF && i % 50 != 0) continue;
    cases.push_back({half({}, i, 1), fmt::format("h[{0}:{0}+1].reshape([])", i)});
    // Steps of a prime mix exponents, those of one do not.
    if (i % 50 == 0) {
      const std::size_t first = i * 7919 % (bits.size() - 8);
      cases.push_back({half({7}, first, 7), fmt::format("h[{0}:{0}+7]", first)});
    }
  }
  Random random(/*key=*/6);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> words;
    TensorValue mixed{.dtype = graph::DataType::kHalf, .shape = {4, 3}};
    for (int k = 0; k < 12; ++k) {
      // Numbers of few exponents first, of all in the end.
      const auto number = static_cast<std::uint16_t>(0x3C00 + random.uniform(-80.0 * i, 70.0 * i));
      mixed.bytes.append(reinterpret_cast<const char*>(&number), 2);
      words.push_back(std::to_string(number));
    }
    cases.push_back({mixed, fmt::format("h[[{}]].reshape([4, 3])", fmt::join(words, ", "))});
  }
  return cases;
}

void expect_as_numpy(const std::vector<Printed>& cases, const std::string& preamble) {
  if (testing::run_program("/usr/bin/python3", {"-c", "import numpy"}).status != 0) {
    GTEST_SKIP() << "python3-numpy is not installed";
  }
  const testing::TempDir folder;
  std::string script = "import numpy\n" + preamble;
  for (const Printed& printed : cases) {
    // [()] makes a number of an array without axes, as TensorFlow gives it.
    script += fmt::format("a = {}\nprint(a[()] if a.shape == () else a)\nprint('--')\n",
                          printed.expression);
  }
  const auto path = folder.path() / "print.py";
  std::ofstream(path) << script;
  const testing::Outcome numpy = testing::run_program("/usr/bin/python3", {path.string()});
  ASSERT_EQ(numpy.status, 0) << numpy.err;
  std::size_t begin = 0;
  for (const Printed& printed : cases) {
    const std::size_t end = numpy.out.find("\n--\n", begin);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(numpy_text(printed.tensor), numpy.out.substr(begin, end - begin))
        << printed.expression.substr(0, 300);
    begin = end + 4;
  }
}

TEST(NumpyText, IsWhatNumpyPrints) { expect_as_numpy(printed_cases(), ""); }

TEST(NumpyText, ShowsNumbersOf16BitsAsNumpyDoes) {
  expect_as_numpy(half_cases(),
                  "h = numpy.arange(65536).astype(numpy.uint16).view(numpy.float16)\n");
}

}  // namespace
}  // namespace muster::python
