#include "muster/data/summary/hparams.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/hparams.pb.h"

namespace muster {
namespace {

using proto::hparams::HParamsPluginData;

// TensorBoard reads the metadata alone, and wants some tensor beside it.
SummaryValue summary_of(std::string tag, const HParamsPluginData& data) {
  SummaryValue value{.tag = std::move(tag),
                     .data = NumberTensor{.shape = {1}, .values = {0}},
                     .plugin = "hparams"};
  if (!data.SerializeToString(&value.plugin_content)) {
    throw InvalidArgument("hyperparameters of {} bytes are too large to write",
                          data.ByteSizeLong());
  }
  return value;
}

google::protobuf::Value to_proto(const HParam& hparam) {
  google::protobuf::Value value;
  if (const auto* flag = std::get_if<bool>(&hparam.value)) value.set_bool_value(*flag);
  if (const auto* number = std::get_if<double>(&hparam.value)) value.set_number_value(*number);
  if (const auto* text = std::get_if<std::string>(&hparam.value)) value.set_string_value(*text);
  return value;
}

proto::hparams::DataType type_of(const HParam& hparam) {
  if (std::holds_alternative<bool>(hparam.value)) return proto::hparams::DATA_TYPE_BOOL;
  if (std::holds_alternative<double>(hparam.value)) return proto::hparams::DATA_TYPE_FLOAT64;
  return proto::hparams::DATA_TYPE_STRING;
}

}  // namespace

SummaryValue hparams_experiment(std::span<const HParam> hparams,
                                std::span<const HParamMetric> metrics, double time) {
  HParamsPluginData data;
  auto& experiment = *data.mutable_experiment();
  experiment.set_time_created_secs(time);
  for (const HParam& hparam : hparams) {
    auto& info = *experiment.add_hparam_infos();
    info.set_name(hparam.name);
    info.set_type(type_of(hparam));
  }
  for (const HParamMetric& metric : metrics) {
    auto& info = *experiment.add_metric_infos();
    info.mutable_name()->set_group(metric.group);
    info.mutable_name()->set_tag(metric.tag);
    info.set_display_name(metric.display_name);
  }
  return summary_of("_hparams_/experiment", data);
}

SummaryValue hparams_session_start(std::span<const HParam> hparams, const std::string& group_name,
                                   double time) {
  HParamsPluginData data;
  auto& start = *data.mutable_session_start_info();
  for (const HParam& hparam : hparams) (*start.mutable_hparams())[hparam.name] = to_proto(hparam);
  start.set_group_name(group_name);
  start.set_start_time_secs(time);
  return summary_of("_hparams_/session_start_info", data);
}

SummaryValue hparams_session_end(bool success, double time) {
  HParamsPluginData data;
  auto& end = *data.mutable_session_end_info();
  end.set_status(success ? proto::hparams::STATUS_SUCCESS : proto::hparams::STATUS_FAILURE);
  end.set_end_time_secs(time);
  return summary_of("_hparams_/session_end_info", data);
}

}  // namespace muster
