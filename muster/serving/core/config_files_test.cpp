#include "muster/serving/core/config_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Pair;

TEST(ModelConfigFile, IsReadAsUsersWriteIt) {
  const auto models = parse_model_config(R"(# Two models.
    model_config_list: {
      config: { name: 'a', base_path: "/models/a", model_platform: "tensorflow",
                model_version_policy { specific { versions: 42 versions: 43 } }
                version_labels { key: 'stable' value: 42 } },
      config { name: "b" base_path: "file:///models/b" model_type: TENSORFLOW
               model_version_policy: { latest { num_versions: 2 } } }
    })");
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[0].policy.kind, VersionPolicy::Kind::kSpecific);
  EXPECT_THAT(models[0].policy.versions, ElementsAre(42, 43));
  EXPECT_EQ(models[0].labels.at("stable"), 42);
  EXPECT_EQ(models[1].base_path, "/models/b");
  EXPECT_EQ(models[1].policy.count, 2);
  EXPECT_TRUE(parse_model_config("").empty());
}

TEST(ModelConfigFile, HasTheWeightsOfVersions) {
  const auto weights = [](const std::string& text) {
    return parse_model_config(
               "model_config_list { config { name: 'a' base_path: '/a' model_platform: "
               "'tensorflow' version_labels { key: 'stable' value: 42 } " +
               text + " } }")
        .at(0)
        .weights;
  };
  const auto given = weights(
      "version_weights { key: 'stable' value: 90 } version_weights { key: '43' value: 10 }");
  EXPECT_THAT(given, ElementsAre(Pair("43", 10), Pair("stable", 90)));
  const auto refusal = [&](const std::string& text) {
    return message_of([&] { weights("version_weights { " + text + " }"); });
  };
  EXPECT_EQ(refusal("key: 'canary' value: 1"),
            "model a: version_weights names \"canary\", which is none of its labels and no number "
            "of a version");
  EXPECT_EQ(refusal("key: '1' value: -1"),
            "model a: the weight of version 1 must be 0 or more: -1");
  EXPECT_EQ(refusal("key: '1' value: 0"), "model a: all weights of its versions are 0");
}

TEST(ModelConfigFile, IsRefusedInTheWordsOfTensorFlowServing) {
  const auto refusal = [](const std::string& config) {
    return message_of([&] { parse_model_config("model_config_list { " + config + " }"); });
  };
  EXPECT_THAT(refusal("config { nam: 'a' }"),
              HasSubstr("Error parsing text-format tensorflow.serving.ModelServerConfig: line 1"));
  EXPECT_EQ(refusal("config { name: 'a' base_path: 'x' model_platform: 'tensorflow' }"),
            "Expected model a to have an absolute path or URI; got base_path()=x");
  EXPECT_EQ(refusal("config { name: 'a' base_path: '/x' model_platform: 'torch' }"),
            "Model a requests unsupported platform torch");
  EXPECT_THAT(refusal("config { name: 'a' base_path: '/x' }"),
              HasSubstr("Illegal setting neither"));
  const std::string a = "config { name: 'a' base_path: '/x' model_platform: 'tensorflow' } ";
  EXPECT_EQ(refusal(a + a), "Illegal to list model a multiple times in config list");
}

TEST(BatchingFile, SetsTheOptions) {
  const BatchingFile file = parse_batching_parameters(
      "max_batch_size { value: 8 } batch_timeout_micros { value: 500 } num_batch_threads { value: "
      "3 "
      "} max_enqueued_batches { value: 2 } allowed_batch_sizes: 4 allowed_batch_sizes: 8");
  EXPECT_EQ(file.options.max_batch_size, 8);
  EXPECT_EQ(file.options.delay, std::chrono::microseconds(500));
  EXPECT_EQ(file.options.max_waiting, 16U);
  EXPECT_EQ(file.threads, 3U);
  EXPECT_TRUE(file.options.refuse_large);
  EXPECT_FALSE(parse_batching_parameters("enable_large_batch_splitting { value: true }")
                   .options.refuse_large);
  EXPECT_EQ(message_of([] {
              parse_batching_parameters("max_batch_size { value: 8 } allowed_batch_sizes: 4");
            }),
            "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 4; "
            "expected 8");
  EXPECT_THROW(parse_batching_parameters("max_batch_size { value: 0 }"), InvalidArgument);
}

TEST(MonitoringFile, SaysWhereThePageIs) {
  EXPECT_EQ(parse_monitoring_config("prometheus_config { enable: true }"),
            "/monitoring/prometheus/metrics");
  EXPECT_EQ(parse_monitoring_config("prometheus_config { enable: true path: '/m' }"), "/m");
  EXPECT_EQ(parse_monitoring_config(""), "");
  EXPECT_THROW(parse_monitoring_config("prometheus_config { enable: true path: 'm' }"),
               InvalidArgument);
}

TEST(SslFile, HoldsTheTextsOfPemFiles) {
  const TlsOptions tls =
      parse_ssl_config("server_key: 'K' server_cert: 'C' custom_ca: 'A' client_verify: true");
  EXPECT_EQ(tls.key, "K");
  EXPECT_EQ(tls.certificate, "C");
  EXPECT_TRUE(tls.require_client);
  EXPECT_THROW(parse_ssl_config("server_key: 'K'"), InvalidArgument);
}

}  // namespace
}  // namespace muster::serving
