#include "muster/serving/core/config_files.h"

#include <fmt/core.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/serving/core/model_config_list.h"

namespace muster::serving {
namespace {

namespace wire = tensorflow::serving;

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <typename Message>
Message parse_text(std::string_view text) {
  Message message;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(text), &message)) {
    throw InvalidArgument("Error parsing text-format {}: {}", Message::descriptor()->full_name(),
                          error.text());
  }
  return message;
}

VersionPolicy policy_of(
    const wire::FileSystemStoragePathSourceConfig::ServableVersionPolicy& policy) {
  VersionPolicy out;
  if (policy.has_all()) out.kind = VersionPolicy::Kind::kAll;
  if (policy.has_latest()) out.count = std::max<std::int64_t>(1, policy.latest().num_versions());
  if (policy.has_specific()) {
    out.kind = VersionPolicy::Kind::kSpecific;
    out.versions.assign(policy.specific().versions().begin(), policy.specific().versions().end());
  }
  return out;
}

void check_platform(const wire::ModelConfig& config) {
  if (config.model_platform() == "tensorflow") return;
  if (!config.model_platform().empty()) {
    throw InvalidArgument("Model {} requests unsupported platform {}", config.name(),
                          config.model_platform());
  }
  if (config.model_type() == wire::TENSORFLOW) return;
  throw InvalidArgument(
      "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
      "ModelServerConfig::model_platform, model name is {}",
      config.name());
}

std::int64_t positive(const char* name, std::int64_t value) {
  if (value < 1) throw InvalidArgument("{} must be positive: {}", name, value);
  return value;
}

}  // namespace

std::vector<ModelConfig> models_of(const wire::ModelServerConfig& config) {
  if (config.has_custom_model_config()) {
    throw InvalidArgument("custom_model_config is not supported: give a model_config_list");
  }
  std::vector<ModelConfig> models;
  for (const wire::ModelConfig& one : config.model_config_list().config()) {
    check_platform(one);
    Path path(one.base_path());
    const bool has_scheme = one.base_path().find("://") != std::string::npos;
    if (!has_scheme && !path.is_absolute()) {
      throw InvalidArgument("Expected model {} to have an absolute path or URI; got base_path()={}",
                            one.name(), one.base_path());
    }
    if (one.has_logging_config()) {
      log::warning("model {}: logging_config has no effect: requests are not logged", one.name());
    }
    ModelConfig& model = models.emplace_back();
    model.name = one.name();
    model.base_path = strip_file_scheme(path);
    model.policy = policy_of(one.model_version_policy());
    for (const auto& [label, version] : one.version_labels()) model.labels[label] = version;
    for (const auto& [version, weight] : one.version_weights()) model.weights[version] = weight;
  }
  check_models(models);
  return models;
}

std::vector<ModelConfig> parse_model_config(std::string_view text) {
  return models_of(parse_text<wire::ModelServerConfig>(text));
}

BatchingFile parse_batching_parameters(std::string_view text) {
  const auto file = parse_text<wire::BatchingParameters>(text);
  BatchingFile out;
  BatchOptions& options = out.options;
  // TensorFlow Serving's defaults, with which the other parameters of a file were tuned.
  options.max_batch_size =
      file.has_max_batch_size() ? positive("max_batch_size", file.max_batch_size().value()) : 1000;
  const bool split =
      file.has_enable_large_batch_splitting() && file.enable_large_batch_splitting().value();
  options.refuse_large = !split;
  if (file.has_max_execution_batch_size() && split) {
    options.max_batch_size =
        positive("max_execution_batch_size", file.max_execution_batch_size().value());
  }
  if (file.has_batch_timeout_micros()) {
    if (file.batch_timeout_micros().value() < 0) {
      throw InvalidArgument("batch_timeout_micros must not be negative: {}",
                            file.batch_timeout_micros().value());
    }
    options.delay = std::chrono::microseconds(file.batch_timeout_micros().value());
  }
  const std::int64_t batches =
      file.has_max_enqueued_batches()
          ? positive("max_enqueued_batches", file.max_enqueued_batches().value())
          : 10;
  options.max_waiting = static_cast<std::size_t>(batches * options.max_batch_size);
  if (file.has_num_batch_threads()) {
    out.threads =
        static_cast<std::size_t>(positive("num_batch_threads", file.num_batch_threads().value()));
  }
  options.allowed_batch_sizes.assign(file.allowed_batch_sizes().begin(),
                                     file.allowed_batch_sizes().end());
  if (!options.allowed_batch_sizes.empty()) {
    if (!std::ranges::is_sorted(options.allowed_batch_sizes) ||
        options.allowed_batch_sizes.front() < 1) {
      throw InvalidArgument("allowed_batch_sizes must be positive and ascending");
    }
    if (options.allowed_batch_sizes.back() != options.max_batch_size) {
      throw InvalidArgument(
          "Last entry in allowed_batch_sizes must match max_batch_size; last entry was {}; "
          "expected "
          "{}",
          options.allowed_batch_sizes.back(), options.max_batch_size);
    }
  }
  if (file.pad_variable_length_inputs()) {
    log::warning(
        "pad_variable_length_inputs has no effect: requests of differing shapes are computed "
        "apart");
  }
  return out;
}

std::string parse_monitoring_config(std::string_view text) {
  const auto file = parse_text<wire::MonitoringConfig>(text);
  if (!file.prometheus_config().enable()) return {};
  const std::string& path = file.prometheus_config().path();
  if (path.empty()) return "/monitoring/prometheus/metrics";
  if (path.front() != '/') throw InvalidArgument("path must begin with '/': {}", path);
  return path;
}

TlsOptions parse_ssl_config(std::string_view text) {
  const auto file = parse_text<wire::SSLConfig>(text);
  if (file.server_key().empty() || file.server_cert().empty()) {
    throw InvalidArgument("server_key and server_cert must be the texts of PEM files");
  }
  return {.certificate = file.server_cert(),
          .key = file.server_key(),
          .client_ca = file.custom_ca(),
          .require_client = file.client_verify()};
}

}  // namespace muster::serving
