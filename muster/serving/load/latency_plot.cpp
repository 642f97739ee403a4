#include "muster/serving/load/latency_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "muster/base/printable.h"

namespace muster::serving {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 480;
constexpr double kLeft = 80;
constexpr double kRight = 90;
constexpr double kTop = 48;
constexpr double kBottom = 56;

struct Line {
  const char* name;
  const char* color;
  double PlotPoint::*seconds;
};
// Colours that people who see fewer of them can tell apart, too.
constexpr std::array<Line, 4> kLines{{{"p50", "#009e73", &PlotPoint::p50_seconds},
                                      {"p90", "#0072b2", &PlotPoint::p90_seconds},
                                      {"p99", "#d55e00", &PlotPoint::p99_seconds},
                                      {"p99.9", "#cc79a7", &PlotPoint::p999_seconds}}};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string time_text(double seconds) {
  if (seconds >= 0.9995) return fmt::format("{:g} s", seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:g} ms", seconds * 1e3);
  return fmt::format("{:g} us", seconds * 1e6);
}

/// From values to places in the picture.
class Scale {
 public:
  explicit Scale(const LatencyPlot& plot) {
    double least = 1e300;
    double most = 0;
    const auto add = [&](double seconds) {
      const double shown = std::max(seconds, 1e-6);
      least = std::min(least, shown);
      most = std::max(most, shown);
    };
    for (const PlotPoint& point : plot.points) {
      most_rate_ = std::max(most_rate_, point.rate);
      for (const Line& line : kLines) add(point.*line.seconds);
    }
    if (plot.knee) most_rate_ = std::max(most_rate_, *plot.knee);
    if (plot.most_p99_seconds) add(*plot.most_p99_seconds);
    if (most == 0) add(1e-3);
    first_power_ = static_cast<int>(std::floor(std::log10(least)));
    last_power_ = std::max(first_power_ + 1, static_cast<int>(std::ceil(std::log10(most))));
    step_ = rate_step(most_rate_);
    most_rate_ = std::max(1.0, std::ceil(most_rate_ / step_)) * step_;
  }

  double x(double rate) const { return kLeft + (kWidth - kLeft - kRight) * rate / most_rate_; }
  double y(double seconds) const {
    const double power = std::log10(std::max(seconds, 1e-6));
    return kHeight - kBottom -
           (kHeight - kTop - kBottom) * (power - first_power_) / (last_power_ - first_power_);
  }
  int first_power() const { return first_power_; }
  int last_power() const { return last_power_; }
  double step() const { return step_; }
  double most_rate() const { return most_rate_; }

 private:
  // 1, 2 or 5 times a power of ten: five to ten of them are the axis.
  static double rate_step(double most) {
    const double power = std::pow(10, std::floor(std::log10(std::max(most, 1e-9) / 5)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (most / (factor * power) <= 10) return factor * power;
    }
    return 10 * power;
  }

  double most_rate_ = 0;
  double step_ = 1;
  int first_power_ = 0;
  int last_power_ = 1;
};

std::string text_at(double x, double y, const char* anchor, std::string_view text,
                    const char* color = "#333") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n",
                     x, y, anchor, color, escaped(printable_line(text)));
}

std::string line_at(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string axes(const LatencyPlot& plot, const Scale& scale) {
  std::string out;
  constexpr const char* kGrid = "stroke=\"#ddd\"";
  for (int power = scale.first_power(); power <= scale.last_power(); ++power) {
    const double seconds = std::pow(10, power);
    out += line_at(kLeft, scale.y(seconds), kWidth - kRight, scale.y(seconds), kGrid);
    out += text_at(kLeft - 8, scale.y(seconds) + 4, "end", time_text(seconds));
  }
  for (int i = 0; i * scale.step() <= scale.most_rate() * 1.0001; ++i) {
    const double rate = i * scale.step();
    out += line_at(scale.x(rate), kTop, scale.x(rate), kHeight - kBottom, kGrid);
    out += text_at(scale.x(rate), kHeight - kBottom + 18, "middle", fmt::format("{:g}", rate));
  }
  out += text_at((kLeft + kWidth - kRight) / 2, kHeight - 12, "middle", plot.rates);
  out += text_at(kLeft, 24, "start", plot.title, "#000");
  return out;
}

std::string marks(const LatencyPlot& plot, const Scale& scale) {
  std::string out;
  constexpr const char* kDashed = "stroke=\"#888\" stroke-dasharray=\"4 4\"";
  if (plot.knee) {
    out += line_at(scale.x(*plot.knee), kTop, scale.x(*plot.knee), kHeight - kBottom, kDashed);
    out += text_at(scale.x(*plot.knee), kTop - 6, "middle", fmt::format("knee {:.0f}", *plot.knee));
  }
  if (plot.most_p99_seconds) {
    const double y = scale.y(*plot.most_p99_seconds);
    out += line_at(kLeft, y, kWidth - kRight, y, kDashed);
  }
  return out;
}

std::string curve(const std::vector<PlotPoint>& points, const Line& line, const Scale& scale) {
  std::string path;
  std::string circles;
  for (const PlotPoint& point : points) {
    const double x = scale.x(point.rate);
    const double y = scale.y(point.*line.seconds);
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x, y);
    circles += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" stroke=\"{}\" fill=\"{}\"><title>{} at "
        "{:.0f}: "
        "{}</title></circle>\n",
        x, y, line.color, point.is_bad ? "#fff" : line.color, line.name, point.rate,
        time_text(point.*line.seconds));
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n{}",
                     line.color, path, circles);
}

}  // namespace

std::string latency_svg(const LatencyPlot& plot) {
  std::vector<PlotPoint> points = plot.points;
  std::ranges::sort(points, {}, &PlotPoint::rate);
  const Scale scale(plot);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
      kWidth, kHeight);
  out += axes(plot, scale);
  out += marks(plot, scale);
  double legend = kTop + 12;
  for (auto line = kLines.rbegin(); line != kLines.rend(); ++line, legend += 20) {
    if (!points.empty()) out += curve(points, *line, scale);
    out += text_at(kWidth - kRight + 16, legend, "start", line->name, line->color);
  }
  return out + "</svg>\n";
}

}  // namespace muster::serving
