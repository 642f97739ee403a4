#include "muster/data/summary/hparams.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/hparams.pb.h"

namespace muster {
namespace {

using proto::hparams::HParamsPluginData;

const std::vector<HParam> kHParams{
    {"learning_rate", 0.1}, {"batch_norm", true}, {"optimizer", std::string("adam")}};

HParamsPluginData content_of(const SummaryValue& value) {
  EXPECT_EQ(value.plugin, "hparams");
  EXPECT_EQ(std::get<NumberTensor>(value.data).values, std::vector<double>{0});
  HParamsPluginData data;
  EXPECT_TRUE(data.ParseFromString(value.plugin_content));
  EXPECT_EQ(data.version(), 0);
  return data;
}

TEST(HParams, TheExperimentNamesItsColumnsWithTheirTypes) {
  const std::vector<HParamMetric> metrics{{.tag = "accuracy", .group = "eval"}};
  const auto value = hparams_experiment(kHParams, metrics, 12.5);
  EXPECT_EQ(value.tag, "_hparams_/experiment");
  const auto data = content_of(value);
  const auto& experiment = data.experiment();
  ASSERT_EQ(experiment.hparam_infos_size(), 3);
  EXPECT_EQ(experiment.hparam_infos(0).name(), "learning_rate");
  EXPECT_EQ(experiment.hparam_infos(0).type(), proto::hparams::DATA_TYPE_FLOAT64);
  EXPECT_EQ(experiment.hparam_infos(1).type(), proto::hparams::DATA_TYPE_BOOL);
  EXPECT_EQ(experiment.hparam_infos(2).type(), proto::hparams::DATA_TYPE_STRING);
  EXPECT_EQ(experiment.metric_infos(0).name().group(), "eval");
  EXPECT_EQ(experiment.metric_infos(0).name().tag(), "accuracy");
  EXPECT_EQ(experiment.time_created_secs(), 12.5);
}

TEST(HParams, ASessionStartsWithItsValues) {
  const auto value = hparams_session_start(kHParams, "group", 3.0);
  EXPECT_EQ(value.tag, "_hparams_/session_start_info");
  const auto data = content_of(value);
  const auto& hparams = data.session_start_info().hparams();
  EXPECT_EQ(hparams.at("learning_rate").number_value(), 0.1);
  EXPECT_TRUE(hparams.at("batch_norm").bool_value());
  EXPECT_EQ(hparams.at("optimizer").string_value(), "adam");
  EXPECT_EQ(data.session_start_info().group_name(), "group");
  EXPECT_EQ(data.session_start_info().start_time_secs(), 3.0);
}

TEST(HParams, ASessionEndsWithItsStatus) {
  const auto value = hparams_session_end(false, 4.0);
  EXPECT_EQ(value.tag, "_hparams_/session_end_info");
  EXPECT_EQ(content_of(value).session_end_info().status(), proto::hparams::STATUS_FAILURE);
  EXPECT_EQ(content_of(hparams_session_end(true, 4.0)).session_end_info().status(),
            proto::hparams::STATUS_SUCCESS);
}

}  // namespace
}  // namespace muster
