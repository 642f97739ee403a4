#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/data/summary/histogram.h"
#include "muster/data/summary/png.h"

namespace muster {

/// A picture as an event file holds it.
struct ImageData {
  ImageShape shape{};
  /// Encoded: PNG when muster wrote it, maybe JPEG or GIF when another program did.
  std::string encoded{};

  bool operator==(const ImageData&) const = default;
};

/// Numbers with a shape. Written as float (`float32`), double or int64; read from any type of
/// number.
struct NumberTensor {
  enum class Type { kFloat, kDouble, kInt64, kOther };

  Type type = Type::kFloat;
  std::vector<std::int64_t> shape{};
  /// Row by row. A file may hold fewer than the shape asks for: then the last one is repeated for
  /// the rest.
  std::vector<double> values{};

  bool operator==(const NumberTensor&) const = default;
};

struct StringTensor {
  std::vector<std::int64_t> shape{};
  std::vector<std::string> values{};

  bool operator==(const StringTensor&) const = default;
};

/// One value under a tag. monostate: something that muster does not look into, such as sound.
struct SummaryValue {
  std::string tag{};
  std::variant<std::monostate, float, HistogramData, ImageData, NumberTensor, StringTensor> data{};
  /// Which page of TensorBoard shows it ("text", "hparams"), and what that page needs to know.
  std::string plugin{};
  std::string plugin_content{};

  bool operator==(const SummaryValue&) const = default;
};

using Summary = std::vector<SummaryValue>;

/// A mark in the course of training.
struct SessionMark {
  enum class Status { kUnspecified = 0, kStart = 1, kStop = 2, kCheckpoint = 3 };

  Status status = Status::kUnspecified;
  std::string checkpoint_path{};
  std::string message{};

  bool operator==(const SessionMark&) const = default;
};

/// A serialized GraphDef.
struct GraphBytes {
  std::string bytes{};

  bool operator==(const GraphBytes&) const = default;
};

/// File version, which the first event of a file states for all of them.
struct FileVersion {
  std::string version{};

  bool operator==(const FileVersion&) const = default;
};

/// One record of an event file. monostate: a kind that muster does not look into.
struct Event {
  /// Seconds since 1970.
  double wall_time = 0;
  std::int64_t step = 0;
  std::variant<std::monostate, FileVersion, GraphBytes, Summary, SessionMark> what{};

  bool operator==(const Event&) const = default;
};

inline constexpr std::string_view kEventFileVersion = "brain.Event:2";

/// The bytes of one record. Throws InvalidArgument for a tensor whose shape does not fit its
/// values.
std::string encode_event(const Event& event);

/// Throws DataLoss when the bytes are no Event, or a tensor in them holds less than it says.
Event decode_event(std::string_view bytes);

/// The number of a scalar summary, in any of the ways in which programs write one.
std::optional<double> scalar_of(const SummaryValue& value);

/// Text for TensorBoard's page of that name, which renders it as Markdown.
SummaryValue text_summary(std::string tag, std::string text);

}  // namespace muster
