#include "muster/nn/model/metric_heads.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <map>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::size_t kMostSlices = 100;

/// A head that is another one in all but its metrics.
class HeadAround : public Head {
 public:
  HeadAround(HeadPtr head, std::string_view function) : head_(std::move(head)) {
    if (head_ == nullptr) {
      throw InvalidArgument(
          "{} needs a head: a model that makes its metrics without one adds to them in call()",
          function);
    }
  }

  std::int64_t logits_dimension() const override { return head_->logits_dimension(); }
  const std::string& name() const override { return head_->name(); }
  void check_labels(const Features& labels) const override { head_->check_labels(labels); }
  HeadLoss loss(const at::Tensor& logits, const Batch& batch, Mode mode) const override {
    return head_->loss(logits, batch, mode);
  }
  Features predictions(const at::Tensor& logits) const override {
    return head_->predictions(logits);
  }
  MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                             const HeadLoss& loss) const override {
    return head_->detailed_metrics(logits, batch, loss);
  }
  std::vector<ExportOutput> export_outputs() const override { return head_->export_outputs(); }
  Summaries summaries(const HeadLoss& loss, std::int64_t batch_size) const override {
    return head_->summaries(loss, batch_size);
  }

 protected:
  const Head& head() const { return *head_; }

 private:
  HeadPtr head_;
};

class HeadWithMetrics : public HeadAround {
 public:
  HeadWithMetrics(HeadPtr head, MetricFn function)
      : HeadAround(std::move(head), "with_metrics"), function_(std::move(function)) {
    if (!function_) throw InvalidArgument("with_metrics needs a function that makes metrics");
  }

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    auto all = head().metrics(logits, batch, loss);
    const Features predictions = head().predictions(logits.detach());
    all.absorb(function_({.features = batch.features,
                          .labels = batch.labels,
                          .predictions = predictions,
                          .weights = loss.weights}));
    return all;
  }

 private:
  MetricFn function_;
};

class HeadWithDetails : public HeadAround {
 public:
  explicit HeadWithDetails(HeadPtr head) : HeadAround(std::move(head), "with_detailed_metrics") {}

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    auto all = head().metrics(logits, batch, loss);
    all.absorb(head().detailed_metrics(logits, batch, loss));
    return all;
  }
};

at::Tensor index_of(const std::vector<std::int64_t>& rows) {
  return torch::tensor(rows, torch::kLong);
}

at::Tensor take_rows(const at::Tensor& tensor, const std::vector<std::int64_t>& rows) {
  return tensor.index_select(0, index_of(rows).to(tensor.device()));
}

StringColumn take_rows(const StringColumn& column, const std::vector<std::int64_t>& rows) {
  // The column owns itself in what keeps the bytes alive.
  const auto owner = std::make_shared<const StringColumn>(column);
  std::vector<std::string_view> values;
  std::vector<std::int64_t> splits{0};
  splits.reserve(rows.size() + 1);
  for (const std::int64_t row : rows) {
    const auto words = owner->row(row);
    values.insert(values.end(), words.begin(), words.end());
    splits.push_back(static_cast<std::int64_t>(values.size()));
  }
  if (column.is_ragged()) return StringColumn::ragged(std::move(values), std::move(splits), owner);
  auto shape = column.shape();
  shape[0] = static_cast<std::int64_t>(rows.size());
  return {std::move(values), std::move(shape), owner};
}

RaggedColumn take_rows(const RaggedColumn& column, const std::vector<std::int64_t>& rows) {
  const auto all_splits = column.row_splits.contiguous();
  const auto* const split = all_splits.data_ptr<std::int64_t>();
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> splits{0};
  splits.reserve(rows.size() + 1);
  for (const std::int64_t row : rows) {
    for (auto i = split[row]; i < split[row + 1]; ++i) places.push_back(i);
    splits.push_back(static_cast<std::int64_t>(places.size()));
  }
  return {.values = take_rows(column.values, places),
          .row_splits = index_of(splits),
          .weights = column.weights.defined() ? take_rows(column.weights, places) : column.weights};
}

Features take_rows(const Features& features, const std::vector<std::int64_t>& rows) {
  Features taken;
  for (const auto& [name, value] : features) {
    taken.add(name,
              std::visit([&](const auto& column) { return FeatureValue(take_rows(column, rows)); },
                         value));
  }
  return taken;
}

/// Rows of a batch by what a column says of them, as text.
using RowsByValue = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

[[noreturn]] void throw_no_slices(const std::string& name, const FeatureValue& value) {
  throw InvalidArgument(
      "the column \"{}\" is {}, but metrics are sliced by a column of one word or integer per "
      "example: put numbers into buckets first",
      name, describe(value));
}

RowsByValue rows_by_word(const std::string& name, const StringColumn& column) {
  RowsByValue rows;
  for (std::int64_t row = 0; row < column.rows(); ++row) {
    const auto words = column.row(row);
    if (words.size() != 1) throw_no_slices(name, column);
    rows[std::string(words[0])].push_back(row);
  }
  return rows;
}

RowsByValue rows_by_integer(const std::string& name, const at::Tensor& column) {
  if (column.is_floating_point() || column.is_complex() || column.numel() != column.size(0)) {
    throw_no_slices(name, column);
  }
  const auto values = column.detach().to(at::kCPU, torch::kLong).contiguous();
  const auto* const value = values.data_ptr<std::int64_t>();
  RowsByValue rows;
  for (std::int64_t row = 0; row < values.numel(); ++row) {
    rows[std::to_string(value[row])].push_back(row);
  }
  return rows;
}

RowsByValue rows_by_value(const std::string& name, const FeatureValue& value) {
  RowsByValue rows;
  if (const auto* words = std::get_if<StringColumn>(&value)) {
    rows = rows_by_word(name, *words);
  } else if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
    rows = rows_by_integer(name, *tensor);
  } else {
    throw_no_slices(name, value);
  }
  if (rows.size() > kMostSlices) {
    throw InvalidArgument(
        "the column \"{}\" has {} values in one batch, and metrics are sliced by at most {}: put "
        "them into buckets first",
        name, rows.size(), kMostSlices);
  }
  return rows;
}

class HeadWithSlices : public HeadAround {
 public:
  HeadWithSlices(HeadPtr head, std::vector<std::string> columns)
      : HeadAround(std::move(head), "with_slices"), columns_(std::move(columns)) {
    if (columns_.empty()) throw InvalidArgument("with_slices needs the name of a column");
  }

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    auto all = head().metrics(logits, batch, loss);
    for (const auto& column : columns_) {
      for (const auto& [value, rows] : rows_by_value(column, batch.features.at(column))) {
        all.absorb(
            metrics_of(rows, logits, batch).with_suffix(fmt::format("/{}={}", column, value)));
      }
    }
    return all;
  }

 private:
  MetricSet metrics_of(const std::vector<std::int64_t>& rows, const at::Tensor& logits,
                       const Batch& batch) const {
    const auto mine = take_rows(logits, rows);
    const Batch part{.features = take_rows(batch.features, rows),
                     .labels = take_rows(batch.labels, rows)};
    return head().metrics(mine, part, head().loss(mine, part, Mode::kEval));
  }

  std::vector<std::string> columns_;
};

}  // namespace

HeadPtr with_metrics(HeadPtr head, MetricFn function) {
  return std::make_shared<const HeadWithMetrics>(std::move(head), std::move(function));
}

HeadPtr with_detailed_metrics(HeadPtr head) {
  return std::make_shared<const HeadWithDetails>(std::move(head));
}

HeadPtr with_slices(HeadPtr head, std::vector<std::string> columns) {
  return std::make_shared<const HeadWithSlices>(std::move(head), std::move(columns));
}

}  // namespace muster
