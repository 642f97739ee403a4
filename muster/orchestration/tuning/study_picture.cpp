#include "muster/orchestration/tuning/study_picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/printable.h"
#include "muster/orchestration/tuning/search_space.h"

namespace muster::tuning {
namespace {

constexpr double kPictureWidth = 960;
constexpr double kMargin = 70;
constexpr double kTitleHeight = 34;
constexpr double kHistoryHeight = 240;
constexpr double kLinesHeight = 280;
constexpr double kSliceHeight = 170;
constexpr std::size_t kSlicesInRow = 3;
// Categories beyond these have no name at their axis.
constexpr std::size_t kMostNames = 12;
constexpr std::size_t kMostLetters = 18;

struct Box {
  double left;
  double top;
  double width;
  double height;

  double x(double share) const { return left + share * width; }
  // Upwards.
  double y(double share) const { return top + (1 - share) * height; }
};

struct DrawnTrial {
  std::int64_t id;
  double value;
  // 1 the best of those drawn, near 0 the worst: by rank, since one bad trial would make all others
  // look good.
  double merit;
  Point point;
  std::string title;
};

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char letter : printable(text)) {
    if (letter == '&') {
      escaped += "&amp;";
    } else if (letter == '<') {
      escaped += "&lt;";
    } else if (letter == '>') {
      escaped += "&gt;";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

// From light grey to dark blue.
std::string colour(double merit) {
  const auto between = [&](double from, double to) {
    return static_cast<int>(std::lround(from + merit * (to - from)));
  };
  return fmt::format("rgb({},{},{})", between(214, 11), between(219, 79), between(226, 158));
}

std::string title_of(const Trial& trial, const std::string& tag) {
  std::string title =
      fmt::format("trial {}: {} = {:.6g}", trial.id, tag, trial.final_metric->value);
  for (const auto& [name, value] : trial.values) title += fmt::format("\n{} = {}", name, value);
  return xml_text(title);
}

class Picture {
 public:
  explicit Picture(const Study& study)
      : study_(study), space_(study.spec.params), trials_(drawn_trials()) {}

  std::string svg() {
    double top = kTitleHeight;
    history({kMargin, top, kPictureWidth - 2 * kMargin, kHistoryHeight - kTitleHeight});
    top += kHistoryHeight + kTitleHeight;
    parallel_lines({kMargin, top, kPictureWidth - 2 * kMargin, kLinesHeight - 2 * kTitleHeight});
    top += kLinesHeight;
    top = slices(top);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
               "font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               kPictureWidth, top) +
           body_ + "</svg>\n";
  }

 private:
  // By number; the best of them if there are too many.
  std::vector<DrawnTrial> drawn_trials() {
    const double sign = study_.spec.goal == Goal::kMaximize ? 1 : -1;
    std::vector<const Trial*> found;
    for (const Trial& trial : study_.trials) {
      if (trial.final_metric && std::isfinite(trial.final_metric->value)) found.push_back(&trial);
    }
    std::stable_sort(found.begin(), found.end(), [&](const Trial* a, const Trial* b) {
      return sign * a->final_metric->value > sign * b->final_metric->value;
    });
    found.resize(std::min(found.size(), kMostDrawnTrials));
    if (found.empty()) return {};
    const double best = found.front()->final_metric->value;
    const double worst = found.back()->final_metric->value;
    low_ = std::min(best, worst);
    high_ = std::max(best, worst);
    std::vector<DrawnTrial> drawn;
    for (const Trial* trial : found) {
      const double value = trial->final_metric->value;
      const double behind = static_cast<double>(drawn.size()) / static_cast<double>(found.size());
      const bool is_as_good = !drawn.empty() && drawn.back().value == value;
      drawn.push_back({.id = trial->id,
                       .value = value,
                       .merit = is_as_good ? drawn.back().merit : 1 - behind,
                       .point = space_.point_of(trial->values),
                       .title = title_of(*trial, study_.spec.metric_tag)});
    }
    std::sort(drawn.begin(), drawn.end(),
              [](const DrawnTrial& a, const DrawnTrial& b) { return a.id < b.id; });
    return drawn;
  }

  double share_of(double value) const {
    return high_ > low_ ? (value - low_) / (high_ - low_) : 0.5;
  }

  void text(double x, double y, std::string_view words, std::string_view anchor = "middle",
            std::string_view more = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                         anchor, more, xml_text(words));
  }

  void name_at(double x, double y, std::string_view name, std::string_view anchor = "middle") {
    const bool is_long = name.size() > kMostLetters;
    // An ASCII word: names of flags and values are.
    text(x, y, is_long ? std::string(name.substr(0, kMostLetters - 2)) + ".." : std::string(name),
         anchor);
  }

  void heading(const Box& box, std::string_view words) {
    text(box.left, box.top - 14, words, "start", " font-size=\"14\" font-weight=\"bold\"");
  }

  void line(double x0, double y0, double x1, double y1, std::string_view stroke) {
    body_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x0, y0,
        x1, y1, stroke);
  }

  void dot(double x, double y, const DrawnTrial& trial) {
    body_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\" stroke=\"#777\" "
        "stroke-width=\"0.5\"><title>{}</title></circle>\n",
        x, y, colour(trial.merit), trial.title);
  }

  // The ends of the metric to the left of a box.
  void metric_axis(const Box& box) {
    line(box.left, box.top, box.left, box.y(0), "#999");
    line(box.left, box.y(0), box.x(1), box.y(0), "#999");
    if (trials_.empty()) return;
    text(box.left - 6, box.y(1) + 4, fmt::format("{:.4g}", high_), "end");
    text(box.left - 6, box.y(0) + 4, fmt::format("{:.4g}", low_), "end");
  }

  void history(const Box& box) {
    heading(box, fmt::format("{} by trial, and the best so far", study_.spec.metric_tag));
    metric_axis(box);
    if (trials_.empty()) return text(box.x(0.5), box.y(0.5), "no trial has a metric yet");
    const double sign = study_.spec.goal == Goal::kMaximize ? 1 : -1;
    const auto last = static_cast<double>(study_.trials.size());
    const auto x_of = [&](std::int64_t id) { return box.x(static_cast<double>(id) / (last + 1)); };
    std::string path;
    double best = trials_.front().value;
    for (const DrawnTrial& trial : trials_) {
      if (!path.empty())
        path += fmt::format(" {:.1f},{:.1f}", x_of(trial.id), box.y(share_of(best)));
      if (sign * trial.value > sign * best) best = trial.value;
      path += fmt::format(" {:.1f},{:.1f}", x_of(trial.id), box.y(share_of(best)));
    }
    body_ += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#d9822b\" stroke-width=\"1.5\"/>\n",
        path.substr(1));
    for (const DrawnTrial& trial : trials_) {
      dot(x_of(trial.id), box.y(share_of(trial.value)), trial);
    }
    text(x_of(1), box.y(0) + 14, "1");
    if (study_.trials.size() > 1) {
      text(x_of(static_cast<std::int64_t>(last)), box.y(0) + 14, fmt::format("{:.0f}", last));
    }
  }

  std::vector<std::pair<double, std::string>> marks_of(std::size_t parameter) const {
    const ParameterSpec& spec = study_.spec.params[parameter];
    std::vector<std::pair<double, std::string>> marks;
    if (spec.type == ParameterType::kCategorical) {
      for (std::size_t i = 0; i < std::min(kMostNames, spec.categorical_values.size()); ++i) {
        marks.emplace_back(space_.coordinate_of_choice(parameter, i), spec.categorical_values[i]);
      }
    } else if (spec.type == ParameterType::kDiscrete) {
      marks = {{0, fmt::format("{:.4g}", spec.discrete_values.front())},
               {1, fmt::format("{:.4g}", spec.discrete_values.back())}};
    } else {
      marks = {{0, fmt::format("{:.4g}", spec.min_value)},
               {1, fmt::format("{:.4g}", spec.max_value)}};
    }
    return marks;
  }

  void parallel_lines(const Box& box) {
    heading(box, "the values of each trial; the darker, the better");
    const std::size_t axes = space_.size() + 1;
    const auto x_of = [&](std::size_t axis) {
      return box.x(axes > 1 ? static_cast<double>(axis) / static_cast<double>(axes - 1) : 0.5);
    };
    std::vector<const DrawnTrial*> worst_first;
    worst_first.reserve(trials_.size());
    for (const DrawnTrial& trial : trials_) worst_first.push_back(&trial);
    std::stable_sort(worst_first.begin(), worst_first.end(),
                     [](const auto* a, const auto* b) { return a->merit < b->merit; });
    for (const DrawnTrial* trial : worst_first) {
      std::string path;
      for (std::size_t i = 0; i < space_.size(); ++i) {
        if (std::isnan(trial->point[i])) continue;
        path += fmt::format("{:.1f},{:.1f} ", x_of(i), box.y(trial->point[i]));
      }
      path += fmt::format("{:.1f},{:.1f}", x_of(axes - 1), box.y(share_of(trial->value)));
      body_ += fmt::format(
          "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"><title>{}</title></polyline>\n",
          path, colour(trial->merit), trial->title);
    }
    for (std::size_t i = 0; i < axes; ++i) {
      line(x_of(i), box.top, x_of(i), box.y(0), "#555");
      const bool is_metric = i == space_.size();
      name_at(x_of(i), box.y(0) + 30,
              is_metric ? study_.spec.metric_tag : study_.spec.params[i].name);
      if (!is_metric) {
        for (const auto& [place, name] : marks_of(i))
          name_at(x_of(i) + 4, box.y(place) + 4, name, "start");
      } else if (!trials_.empty()) {
        text(x_of(i) + 4, box.y(1) + 4, fmt::format("{:.4g}", high_), "start");
        text(x_of(i) + 4, box.y(0) + 4, fmt::format("{:.4g}", low_), "start");
      }
    }
  }

  // Where the picture ends.
  double slices(double top) {
    const double width = (kPictureWidth - kMargin) / kSlicesInRow;
    for (std::size_t i = 0; i < space_.size(); ++i) {
      const double left = kMargin + static_cast<double>(i % kSlicesInRow) * width;
      const std::size_t row = i / kSlicesInRow;
      slice(i, {left, top + static_cast<double>(row) * kSliceHeight, width - kMargin,
                kSliceHeight - 50});
    }
    const std::size_t rows = (space_.size() + kSlicesInRow - 1) / kSlicesInRow;
    return top + static_cast<double>(rows) * kSliceHeight;
  }

  void slice(std::size_t parameter, const Box& box) {
    metric_axis(box);
    for (const auto& [place, name] : marks_of(parameter))
      name_at(box.x(place), box.y(0) + 13, name);
    name_at(box.x(0.5), box.y(0) + 28, study_.spec.params[parameter].name);
    for (const DrawnTrial& trial : trials_) {
      const double place = trial.point[parameter];
      if (!std::isnan(place)) dot(box.x(place), box.y(share_of(trial.value)), trial);
    }
  }

  const Study& study_;
  const SearchSpace space_;
  double low_ = 0;
  double high_ = 0;
  const std::vector<DrawnTrial> trials_;
  std::string body_;
};

}  // namespace

std::string study_svg(const Study& study) { return Picture(study).svg(); }

}  // namespace muster::tuning
