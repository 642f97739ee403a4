#include "muster/console/media_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "muster/base/error.h"
#include "muster/data/records/wire.h"
#include "muster/data/summary/event.h"

namespace muster::console {
namespace {

using nlohmann::json;

constexpr std::size_t kMostMediaTags = 500;
constexpr std::size_t kMostPlaces = 100;
constexpr std::size_t kMostTagLetters = 512;
constexpr std::size_t kMostTextBytes = std::size_t{256} << 10;
constexpr std::size_t kMostNodes = 20'000;
// Tag of a graph, which has none of its own.
constexpr std::string_view kGraphTag = "graph";
constexpr std::array<std::pair<MediaKind, std::string_view>, 5> kMediaNames{
    {{MediaKind::kImage, "image"},
     {MediaKind::kHistogram, "histogram"},
     {MediaKind::kText, "text"},
     {MediaKind::kGraph, "graph"},
     {MediaKind::kPrCurve, "pr_curve"}}};
// TensorBoard's tensor of a precision-recall curve: true positives, false positives, true
// negatives, false negatives, precision and recall, each by threshold.
constexpr std::string_view kPrPlugin = "pr_curves";
constexpr std::int64_t kPrRows = 6;
constexpr std::size_t kPrecisionRow = 4;
constexpr std::size_t kRecallRow = 5;
constexpr std::int64_t kMostThresholds = 10'000;

std::string media_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<MediaKind> kind_of(const SummaryValue& value) {
  if (std::holds_alternative<ImageData>(value.data)) return MediaKind::kImage;
  if (std::holds_alternative<HistogramData>(value.data)) return MediaKind::kHistogram;
  if (value.plugin == kPrPlugin && std::holds_alternative<NumberTensor>(value.data)) {
    return MediaKind::kPrCurve;
  }
  const bool is_text = value.plugin.empty() || value.plugin == "text";
  if (is_text && std::holds_alternative<StringTensor>(value.data)) return MediaKind::kText;
  return std::nullopt;
}

// By its first bytes: what a file says of itself is not believed.
MediaItem item_of(const ImageData& image) {
  using namespace std::string_view_literals;
  for (const auto& [prefix, type] : {std::pair{"\x89PNG\r\n\x1a\n"sv, "image/png"},
                                     {"\xff\xd8\xff"sv, "image/jpeg"},
                                     {"GIF8"sv, "image/gif"}}) {
    if (image.encoded.starts_with(prefix)) return {type, image.encoded};
  }
  throw InvalidArgument("this is no PNG, JPEG or GIF");
}

MediaItem item_of(const HistogramData& histogram) {
  return {"application/json", media_text({{"min", histogram.min},
                                          {"max", histogram.max},
                                          {"num", histogram.num},
                                          {"limits", histogram.limits},
                                          {"counts", histogram.counts}})};
}

MediaItem item_of(const StringTensor& text) {
  json texts = json::array();
  std::size_t left = kMostTextBytes;
  for (const std::string& one : text.values) {
    texts.push_back(one.substr(0, left));
    left -= std::min(left, one.size());
  }
  return {"application/json", media_text({{"texts", std::move(texts)}, {"isWhole", left > 0}})};
}

json node_of(std::string_view bytes) {
  constexpr std::uint32_t kName = wire::tag(1, wire::kBytes);
  constexpr std::uint32_t kOp = wire::tag(2, wire::kBytes);
  constexpr std::uint32_t kInput = wire::tag(3, wire::kBytes);
  json node{{"name", ""}, {"op", ""}, {"inputs", json::array()}};
  wire::Reader reader(bytes, 0);
  while (!reader.done()) {
    const std::uint32_t tag = reader.tag();
    if (tag == kName) {
      node["name"] = reader.bytes();
    } else if (tag == kOp) {
      node["op"] = reader.bytes();
    } else if (tag == kInput) {
      node["inputs"].push_back(reader.bytes());
    } else {
      reader.skip(tag);
    }
  }
  return node;
}

MediaItem item_of(const GraphBytes& graph) {
  constexpr std::uint32_t kNode = wire::tag(1, wire::kBytes);
  json nodes = json::array();
  wire::Reader reader(graph.bytes, 0);
  while (!reader.done() && nodes.size() < kMostNodes) {
    const std::uint32_t tag = reader.tag();
    if (tag == kNode) {
      nodes.push_back(node_of(reader.bytes()));
    } else {
      reader.skip(tag);
    }
  }
  return {"application/json",
          media_text({{"nodes", std::move(nodes)}, {"isWhole", reader.done()}})};
}

// A list without infinities and NaN, which JSON has not.
json finite_list(const double* values, std::size_t count) {
  json list = json::array();
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(std::isfinite(values[i]) ? json(values[i]) : json());
  }
  return list;
}

MediaItem item_of(const NumberTensor& curve) {
  const bool fits = curve.shape.size() == 2 && curve.shape[0] == kPrRows && curve.shape[1] > 0 &&
                    curve.shape[1] <= kMostThresholds &&
                    curve.values.size() == static_cast<std::size_t>(kPrRows * curve.shape[1]);
  if (!fits) throw InvalidArgument("this is no precision-recall curve of six rows");
  const auto count = static_cast<std::size_t>(curve.shape[1]);
  return {
      "application/json",
      media_text({{"precision", finite_list(curve.values.data() + kPrecisionRow * count, count)},
                  {"recall", finite_list(curve.values.data() + kRecallRow * count, count)}})};
}

MediaItem item_of(const SummaryValue& value) {
  if (const auto* curve = std::get_if<NumberTensor>(&value.data)) return item_of(*curve);
  if (const auto* image = std::get_if<ImageData>(&value.data)) return item_of(*image);
  if (const auto* histogram = std::get_if<HistogramData>(&value.data)) return item_of(*histogram);
  return item_of(std::get<StringTensor>(value.data));
}

}  // namespace

std::string_view name_of(MediaKind kind) {
  return std::ranges::find(kMediaNames, kind, &std::pair<MediaKind, std::string_view>::first)
      ->second;
}

std::optional<MediaKind> media_kind_of(std::string_view name) {
  const auto* found =
      std::ranges::find(kMediaNames, name, &std::pair<MediaKind, std::string_view>::second);
  if (found == kMediaNames.end()) return std::nullopt;
  return found->first;
}

void MediaIndex::add(MediaKind kind, const std::string& tag, const MediaPlace& place) {
  if (tag.size() > kMostTagLetters) return;
  const Key key(kind, tag);
  auto found = places_.find(key);
  if (found == places_.end()) {
    if (places_.size() >= kMostMediaTags) return;
    found = places_.try_emplace(key).first;
  }
  std::vector<MediaPlace>& places = found->second;
  // Training went on from an earlier checkpoint: what is after it was given up.
  if (!places.empty() && places.back().step > place.step) {
    std::erase_if(places, [&](const MediaPlace& one) { return one.step >= place.step; });
  }
  if (places.size() >= kMostPlaces) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < places.size(); i += 2) places[kept++] = places[i];
    places.resize(kept);
  }
  places.push_back(place);
  ++count_;
}

void MediaIndex::note(const Event& event, MediaPlace place) {
  place.step = event.step;
  place.time = event.wall_time;
  if (std::holds_alternative<GraphBytes>(event.what)) {
    add(MediaKind::kGraph, std::string(kGraphTag), place);
  }
  const auto* const summary = std::get_if<Summary>(&event.what);
  if (summary == nullptr) return;
  for (const SummaryValue& value : *summary) {
    if (const auto kind = kind_of(value)) add(*kind, value.tag, place);
  }
}

MediaItem media_item(const Event& event, MediaKind kind, std::string_view tag) {
  const auto* const graph = std::get_if<GraphBytes>(&event.what);
  if (kind == MediaKind::kGraph && graph != nullptr) return item_of(*graph);
  if (const auto* const summary = std::get_if<Summary>(&event.what)) {
    for (const SummaryValue& value : *summary) {
      if (kind_of(value) == kind && value.tag == tag) return item_of(value);
    }
  }
  throw NotFound("there is no such {}", name_of(kind));
}

}  // namespace muster::console
