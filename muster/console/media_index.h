#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {
struct Event;
}  // namespace muster

namespace muster::console {

/// Kinds of data that a run shows besides scalars.
enum class MediaKind { kImage, kHistogram, kText, kGraph, kPrCurve };

/// "image", "histogram", "text", "graph", "pr_curve".
std::string_view name_of(MediaKind kind);
/// Nothing for another word.
std::optional<MediaKind> media_kind_of(std::string_view name);

/// One of them, and where it lies.
struct MediaPlace {
  std::int64_t step = 0;
  double time = 0;
  /// The event file, by its place among those of the run, and the record in it.
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;
};

/// Where the images, histograms, texts, graphs and precision-recall curves of a run lie. They stay
/// in the files: what is kept is bounded, whatever these say. Of a tag with many, every second one
/// is forgotten.
class MediaIndex {
 public:
  using Key = std::pair<MediaKind, std::string>;

  /// `place` is where the event lies; its step and time are the event's.
  void note(const Event& event, MediaPlace place);

  /// How many were seen.
  std::uint64_t count() const { return count_; }
  const std::map<Key, std::vector<MediaPlace>>& places() const { return places_; }

 private:
  void add(MediaKind kind, const std::string& tag, const MediaPlace& place);

  std::map<Key, std::vector<MediaPlace>> places_;
  std::uint64_t count_ = 0;
};

/// The value of that kind and tag in an event, as pages get it: an image as it was encoded, all
/// else as JSON.
struct MediaItem {
  std::string content_type{};
  std::string bytes{};
};
/// Throws NotFound where the event has none, InvalidArgument for an image of a format that browsers
/// are not given.
MediaItem media_item(const Event& event, MediaKind kind, std::string_view tag);

}  // namespace muster::console
