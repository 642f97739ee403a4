#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace muster::serving {

/// Pages of metrics of several nodes as one, in Prometheus's text format. Counters and histograms
/// are sums over the nodes, those that are gone included, so that they never fall; a gauge has a
/// label with the number of its node. One thread at a time.
class JoinedMetrics {
 public:
  /// The page of a node, in place of its last one.
  void update(int node, std::string_view page);
  /// The node is gone: what it has counted stays.
  void retire(int node);

  std::string page() const;
  /// Sum of a sample over all nodes and labels: "muster_batch_rows_count".
  double total(std::string_view sample) const;

 private:
  struct Family {
    /// The lines that begin with '#'.
    std::string header{};
    bool is_gauge = false;
    /// By series, that is the name of a sample and its labels.
    std::map<std::string, double, std::less<>> samples{};
    /// The series in the order in which they came: bounds of a histogram ascend.
    std::vector<std::string> order{};
    void add(std::string_view series, double value);
  };
  /// By name, in the order in which they came.
  struct Page {
    std::vector<std::string> order{};
    std::map<std::string, Family, std::less<>> families{};
    Family& family(std::string_view name);
  };

  static Page parse(std::string_view text);
  static void add_counters(const Page& from, Page& to);

  Page retired_{};
  std::map<int, Page> nodes_{};
};

}  // namespace muster::serving
