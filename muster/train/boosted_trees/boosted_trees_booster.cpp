#include <fmt/core.h>
#include <xgboost/c_api.h>

#include <charconv>
#include <functional>
#include <numeric>

#include "muster/base/error.h"
#include "muster/train/boosted_trees/boosted_trees_booster_internal.h"

namespace muster::internal {
namespace {

// Without the stack trace that follows the first line.
std::string_view last_error() {
  const std::string_view text = XGBGetLastError();
  return text.substr(0, text.find('\n'));
}

void require(int status, std::string_view doing) {
  if (status != 0) throw Internal("libxgboost failed while {}: {}", doing, last_error());
}

// Memory as the library is told of it: numpy's array interface.
template <typename T>
std::string interface_of(const std::vector<T>& values, std::string_view type) {
  return fmt::format(R"({{"data":[{},true],"shape":[{}],"typestr":"{}","version":3}})",
                     reinterpret_cast<std::uintptr_t>(values.data()), values.size(), type);
}

enum class Output { kMargin = 1, kPathContributions = 3 };

std::vector<float> predict(BoosterHandle booster, const BoosterRows& rows, Output output) {
  const std::string config = fmt::format(
      R"({{"type":{},"training":{},"iteration_begin":0,"iteration_end":0,"strict_shape":false}})",
      static_cast<int>(output), output == Output::kMargin);
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* values = nullptr;
  require(XGBoosterPredictFromDMatrix(booster, rows.handle(), config.c_str(), &shape, &dimensions,
                                      &values),
          "predicting");
  const bst_ulong count =
      std::accumulate(shape, shape + dimensions, bst_ulong{1}, std::multiplies<>());
  return {values, values + count};
}

}  // namespace

void require_tree_booster() {}

BoosterRows::BoosterRows(const SparseRows& rows) : size_(rows.rows()) {
  require(XGDMatrixCreateFromCSR(
              interface_of(rows.row_splits, "<u8").c_str(),
              interface_of(rows.columns, "<u4").c_str(), interface_of(rows.values, "<f4").c_str(),
              static_cast<bst_ulong>(rows.width), R"({"missing":NaN,"nthread":1})", &handle_),
          "taking rows");
}
BoosterRows::~BoosterRows() { XGDMatrixFree(handle_); }

TreeBooster::TreeBooster(const BoosterRows& rows, const Parameters& parameters) {
  const DMatrixHandle handle = rows.handle();
  require(XGBoosterCreate(&handle, 1, &handle_), "making a booster");
  set(parameters);
}

TreeBooster::TreeBooster(std::string_view bytes) {
  require(XGBoosterCreate(nullptr, 0, &handle_), "making a booster");
  if (XGBoosterLoadModelFromBuffer(handle_, bytes.data(), bytes.size()) != 0) {
    XGBoosterFree(handle_);
    throw DataLoss("these {} bytes hold no trees: {}", bytes.size(), last_error());
  }
}
TreeBooster::~TreeBooster() { XGBoosterFree(handle_); }

void TreeBooster::set(const Parameters& parameters) {
  for (const auto& [name, value] : parameters) {
    require(XGBoosterSetParam(handle_, name.c_str(), value.c_str()), "taking parameters");
  }
}

void TreeBooster::boost(const BoosterRows& rows, std::span<float> gradients,
                        std::span<float> hessians) {
  require(XGBoosterBoostOneIter(handle_, rows.handle(), gradients.data(), hessians.data(),
                                gradients.size()),
          "growing a tree");
}

std::vector<float> TreeBooster::margins(const BoosterRows& rows) const {
  return predict(handle_, rows, Output::kMargin);
}

std::vector<float> TreeBooster::contributions(const BoosterRows& rows) const {
  return predict(handle_, rows, Output::kPathContributions);
}

std::vector<double> TreeBooster::total_gains() const {
  bst_ulong count = 0;
  const char** names = nullptr;
  bst_ulong dimensions = 0;
  const bst_ulong* shape = nullptr;
  const float* scores = nullptr;
  require(XGBoosterFeatureScore(handle_, R"({"importance_type":"total_gain"})", &count, &names,
                                &dimensions, &shape, &scores),
          "scoring features");
  std::vector<double> gains(static_cast<std::size_t>(width()), 0.0);
  for (bst_ulong i = 0; i < count; ++i) {
    // Features without a name are f0, f1, ...
    const std::string_view name = names[i];
    std::size_t column = 0;
    std::from_chars(name.data() + 1, name.data() + name.size(), column);
    gains.at(column) = scores[i];
  }
  return gains;
}

std::int64_t TreeBooster::trees() const {
  int rounds = 0;
  require(XGBoosterBoostedRounds(handle_, &rounds), "counting trees");
  return rounds;
}

std::int64_t TreeBooster::width() const {
  bst_ulong features = 0;
  require(XGBoosterGetNumFeature(handle_, &features), "counting features");
  return static_cast<std::int64_t>(features);
}

std::string TreeBooster::to_bytes() const {
  bst_ulong size = 0;
  const char* bytes = nullptr;
  require(XGBoosterSaveModelToBuffer(handle_, R"({"format":"ubj"})", &size, &bytes),
          "saving trees");
  return {bytes, bytes + size};
}

}  // namespace muster::internal
