#include "muster/serving/front/joined_metrics.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

namespace muster::serving {
namespace {

// "# TYPE name counter" -> "name".
std::string_view name_in_comment(std::string_view line) {
  for (int words = 0; words < 2; ++words) {
    const auto space = line.find(' ');
    if (space == line.npos) return {};
    line.remove_prefix(space + 1);
  }
  return line.substr(0, line.find(' '));
}

// A sample of a histogram has the name of its family and an ending.
bool belongs_to(std::string_view sample, std::string_view family) {
  if (family.empty() || !sample.starts_with(family)) return false;
  const std::string_view rest = sample.substr(family.size());
  return rest.empty() || rest == "_bucket" || rest == "_sum" || rest == "_count";
}

// Whole numbers as such: counts of requests are read by programs that want no exponent.
std::string number_text(double value) {
  constexpr double kMostWhole = 1e15;
  if (std::floor(value) == value && std::fabs(value) < kMostWhole) {
    return fmt::format("{}", static_cast<long long>(value));
  }
  return fmt::format("{}", value);
}

std::string with_label(std::string_view series, int node) {
  const std::string label = fmt::format("node=\"{}\"", node);
  if (!series.ends_with('}')) return fmt::format("{}{{{}}}", series, label);
  series.remove_suffix(1);
  return fmt::format("{}{}{}}}", series, series.ends_with('{') ? "" : ",", label);
}

}  // namespace

void JoinedMetrics::Family::add(std::string_view series, double value) {
  const auto found = samples.find(series);
  if (found != samples.end()) {
    found->second += value;
    return;
  }
  order.emplace_back(series);
  samples.emplace(series, value);
}

JoinedMetrics::Family& JoinedMetrics::Page::family(std::string_view name) {
  const auto found = families.find(name);
  if (found != families.end()) return found->second;
  order.emplace_back(name);
  return families[std::string(name)];
}

JoinedMetrics::Page JoinedMetrics::parse(std::string_view text) {
  Page page;
  std::string current;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    if (line.starts_with('#')) {
      current = name_in_comment(line);
      Family& family = page.family(current);
      family.header.append(line).push_back('\n');
      if (line.starts_with("# TYPE ") && line.ends_with(" gauge")) family.is_gauge = true;
      continue;
    }
    const auto space = line.rfind(' ');
    if (space == line.npos) continue;
    double value = 0;
    const auto read = std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    if (read.ec != std::errc()) continue;
    const std::string_view series = line.substr(0, space);
    const std::string_view sample = series.substr(0, series.find('{'));
    if (!belongs_to(sample, current)) current = sample;
    page.family(current).add(series, value);
  }
  return page;
}

void JoinedMetrics::add_counters(const Page& from, Page& to) {
  for (const std::string& name : from.order) {
    const Family& family = from.families.find(name)->second;
    if (family.is_gauge) continue;
    Family& sum = to.family(name);
    sum.header = family.header;
    for (const std::string& series : family.order) {
      sum.add(series, family.samples.find(series)->second);
    }
  }
}

void JoinedMetrics::update(int node, std::string_view page) { nodes_[node] = parse(page); }

void JoinedMetrics::retire(int node) {
  const auto gone = nodes_.extract(node);
  if (!gone.empty()) add_counters(gone.mapped(), retired_);
}

double JoinedMetrics::total(std::string_view sample) const {
  double sum = 0;
  const auto add = [&](const Page& page) {
    for (const auto& [name, family] : page.families) {
      if (!belongs_to(sample, name)) continue;
      for (const auto& [series, value] : family.samples) {
        if (std::string_view(series).substr(0, series.find('{')) == sample) sum += value;
      }
    }
  };
  add(retired_);
  for (const auto& node : nodes_) add(node.second);
  return sum;
}

std::string JoinedMetrics::page() const {
  Page sum = retired_;
  for (const auto& [number, page] : nodes_) {
    for (const std::string& name : page.order) {
      const Family& family = page.families.find(name)->second;
      if (!family.is_gauge) continue;
      Family& labelled = sum.family(name);
      labelled.header = family.header;
      for (const std::string& series : family.order) {
        labelled.add(with_label(series, number), family.samples.find(series)->second);
      }
    }
    add_counters(page, sum);
  }
  std::string out;
  for (const std::string& name : sum.order) {
    const Family& family = sum.families.find(name)->second;
    out += family.header;
    for (const std::string& series : family.order) {
      fmt::format_to(std::back_inserter(out), "{} {}\n", series,
                     number_text(family.samples.find(series)->second));
    }
  }
  return out;
}

}  // namespace muster::serving
