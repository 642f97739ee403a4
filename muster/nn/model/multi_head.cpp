#include <torch/types.h>

#include <set>

#include "muster/base/error.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/head_internal.h"

namespace muster {
namespace {

class MultiHead : public Head {
 public:
  MultiHead(std::vector<HeadPtr> heads, std::vector<double> weights)
      : heads_(std::move(heads)), weights_(std::move(weights)) {
    check();
    for (const auto& head : heads_) logits_dimension_ += head->logits_dimension();
  }

  std::int64_t logits_dimension() const override { return logits_dimension_; }
  const std::string& name() const override { return name_; }

  void check_labels(const Features& labels) const override {
    for (const auto& head : heads_) {
      check_label_there(labels, head->name());
      head->check_labels(labels);
    }
  }

  HeadLoss loss(const at::Tensor& logits, const Batch& batch, Mode mode) const override {
    HeadLoss all;
    for_each(logits, [&](std::size_t i, const at::Tensor& mine) {
      check_label_there(batch.labels, heads_[i]->name());
      all.parts.push_back(heads_[i]->loss(mine, batch, mode));
      const auto& part = all.parts.back().loss;
      const auto weighted = weights_.empty() ? part : part * weights_[i];
      all.loss = all.loss.defined() ? all.loss + weighted : weighted;
    });
    return all;
  }

  Features predictions(const at::Tensor& logits) const override {
    Features all;
    for_each(logits, [&](std::size_t i, const at::Tensor& mine) {
      for (const auto& [key, value] : heads_[i]->predictions(mine)) {
        all.add(fmt::format("{}/{}", heads_[i]->name(), key), value);
      }
    });
    return all;
  }

  MetricSet metrics(const at::Tensor& logits, const Batch& batch,
                    const HeadLoss& loss) const override {
    MetricSet all;
    for_each(logits, [&](std::size_t i, const at::Tensor& mine) {
      const auto& part = loss.parts[i];
      all.add(fmt::format("loss/{}", heads_[i]->name()), Mean()).update(part.loss);
      all.absorb(heads_[i]->metrics(mine, batch, part));
    });
    return all;
  }

  MetricSet detailed_metrics(const at::Tensor& logits, const Batch& batch,
                             const HeadLoss& loss) const override {
    MetricSet all;
    for_each(logits, [&](std::size_t i, const at::Tensor& mine) {
      all.absorb(heads_[i]->detailed_metrics(mine, batch, loss.parts[i]));
    });
    return all;
  }

  std::vector<ExportOutput> export_outputs() const override {
    std::vector<ExportOutput> all;
    ExportOutput merged{.name = "predict", .kind = SignatureKind::kPredict};
    for (const auto& head : heads_) add_outputs(*head, all, merged);
    all.push_back(std::move(merged));
    return all;
  }

  Summaries summaries(const HeadLoss& loss, std::int64_t batch_size) const override {
    Summaries all;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      all.scalars.emplace_back(fmt::format("loss/{}", heads_[i]->name()),
                               loss.parts[i].loss.detach());
      for (auto& scalar : heads_[i]->summaries(loss.parts[i], batch_size).scalars) {
        all.scalars.push_back(std::move(scalar));
      }
    }
    return all;
  }

 private:
  void check() const {
    if (heads_.empty()) throw InvalidArgument("multi_head needs at least one head");
    std::set<std::string_view> names;
    for (const auto& head : heads_) {
      if (!head || head->name().empty()) {
        throw InvalidArgument("every head of a multi_head needs a name: set HeadOptions::name");
      }
      if (!names.insert(head->name()).second) {
        throw InvalidArgument("two heads of a multi_head have the name \"{}\"", head->name());
      }
    }
    if (!weights_.empty() && weights_.size() != heads_.size()) {
      throw InvalidArgument("multi_head has {} heads but {} head_weights", heads_.size(),
                            weights_.size());
    }
  }

  static void check_label_there(const Features& labels, const std::string& head) {
    if (labels.contains(head)) return;
    throw NotFound(
        "there is no label for the head \"{}\"; there are: {}. Labels have the names of "
        "their heads",
        head, labels.empty() ? "none" : labels.names());
  }

  // Calls `function` with every head's number and its part of the logits.
  template <typename Function>
  void for_each(const at::Tensor& logits, Function&& function) const {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      const auto width = heads_[i]->logits_dimension();
      function(i, logits.narrow(1, first, width));
      first += width;
    }
  }

  // A head's own default goes by the head's name, and its other signatures under it.
  static void add_outputs(const Head& head, std::vector<ExportOutput>& all, ExportOutput& merged) {
    const bool first = all.empty();
    for (auto output : head.export_outputs()) {
      for (auto& entry : output.outputs) {
        entry.second = fmt::format("{}/{}", head.name(), entry.second);
        if (output.name == "predict") merged.outputs.emplace_back(entry.second, entry.second);
      }
      const bool is_default = output.name == kServingDefault;
      if (is_default && first) all.push_back(output);
      output.name = is_default ? head.name() : fmt::format("{}/{}", head.name(), output.name);
      all.push_back(std::move(output));
    }
  }

  std::vector<HeadPtr> heads_;
  std::vector<double> weights_;
  std::int64_t logits_dimension_ = 0;
  std::string name_;
};

}  // namespace

HeadPtr multi_head(std::vector<HeadPtr> heads, std::vector<double> head_weights) {
  return std::make_shared<const MultiHead>(std::move(heads), std::move(head_weights));
}

}  // namespace muster
