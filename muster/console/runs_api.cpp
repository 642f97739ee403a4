#include "muster/console/runs_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/console/distribution.h"
#include "muster/console/run_files.h"
#include "muster/orchestration/tuning/study.h"

namespace muster::console {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostPoints = 20'000;
constexpr std::size_t kUsualPoints = 1'000;
constexpr std::size_t kMostRunsAtOnce = 200;
// Pages are told in between while much is being read.
constexpr std::chrono::milliseconds kTellEvery{300};
// Writing what is known of thousands of runs takes some tenths of a second.
constexpr std::chrono::minutes kSaveEvery{5};
// Reading so many is worth a line in the log.
constexpr std::size_t kManyRuns = 100;

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json json_of(const RunSummary& run) {
  json out{{"id", run.id},           {"isRead", run.is_read},       {"points", run.points},
           {"step", run.last_step},  {"firstTime", run.first_time}, {"lastTime", run.last_time},
           {"problem", run.problem}, {"hasMedia", run.has_media}};
  if (run.notes != RunNotes{}) out["notes"] = json::parse(to_json(run.notes));
  return out;
}

// A value of every record of thousands of runs would take longer than all else.
void append_run(const json& run, const std::string& record, std::string& out) {
  out += text_of(run);
  if (record.empty()) return;
  out.back() = ',';
  out += "\"record\":" + record + "}";
}

json tags_json(const RunTags& tags) {
  return {{"tags", tags.training}, {"evaluations", tags.evaluations}};
}

json point_json(const Point& point) {
  // JSON has no infinity and no NaN.
  return {{"step", point.step}, {"value", std::isfinite(point.value) ? json(point.value) : json()}};
}

json files_json(const Path& folder) {
  const RunFiles found = files_of_run(folder);
  json checkpoints = json::array();
  for (const RunCheckpoint& one : found.checkpoints) {
    checkpoints.push_back(
        {{"name", one.name}, {"step", one.step}, {"bytes", one.bytes}, {"time", one.time}});
  }
  const auto list = [](const std::vector<RunFile>& files) {
    json out = json::array();
    for (const RunFile& one : files) {
      out.push_back({{"name", one.name}, {"bytes", one.bytes}, {"time", one.time}});
    }
    return out;
  };
  return {{"checkpoints", std::move(checkpoints)},
          {"exports", list(found.exports)},
          {"files", list(found.files)},
          {"isCut", found.is_cut}};
}

void append_number(double value, fmt::memory_buffer& out) {
  if (!std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out), "null");
  } else {
    fmt::format_to(std::back_inserter(out), "{:.7g}", value);
  }
}

template <typename Append>
void append_list(const char* name, const std::vector<Point>& points, fmt::memory_buffer& out,
                 const Append& append) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":[", name);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0) out.push_back(',');
    append(points[i]);
  }
  out.push_back(']');
}

// By hand: building a JSON value of every number first takes ten times as long.
void append_curve(const Curve& curve, fmt::memory_buffer& out) {
  fmt::format_to(std::back_inserter(out), "{{\"run\":{},\"evaluation\":{},\"isWhole\":{}",
                 text_of(curve.run), text_of(curve.evaluation), curve.is_whole);
  append_list("steps", curve.points, out, [&](const Point& point) {
    fmt::format_to(std::back_inserter(out), "{}", point.step);
  });
  append_list("times", curve.points, out, [&](const Point& point) {
    const double time = std::isfinite(point.time) ? point.time : 0;
    fmt::format_to(std::back_inserter(out), "{:.3f}", time);
  });
  append_list("values", curve.points, out,
              [&](const Point& point) { append_number(point.value, out); });
  out.push_back('}');
}

double number_of(const std::string& name, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw InvalidArgument("{} is no number", name);
  }
  return value;
}

std::vector<WantedRun> runs_of(const ApiRequest& request) {
  std::vector<WantedRun> runs;
  for (std::string& id : request.all("run")) runs.push_back({.id = std::move(id)});
  if (runs.empty()) throw InvalidArgument("run is missing: the id of a run");
  if (runs.size() > kMostRunsAtOnce) {
    throw InvalidArgument("at most {} runs can be asked for at once", kMostRunsAtOnce);
  }
  const auto from = request.all("from");
  const auto to = request.all("to");
  if (from.empty() && to.empty()) return runs;
  if (from.size() != runs.size() || to.size() != runs.size()) {
    throw InvalidArgument("from and to are given once per run, or not at all");
  }
  const bool is_of_time = request.first("over") == "time";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].range = CurveRange{is_of_time, number_of("from", from[i]), number_of("to", to[i])};
  }
  return runs;
}

std::string tag_of(const ApiRequest& request) {
  const auto tag = request.first("tag");
  if (!tag) throw InvalidArgument("tag is missing: the name of a scalar");
  return *tag;
}

// Finds the studies that runs are trials of: the folder of a trial is a number in that of its
// study. Each folder is looked at once.
class StudiesOfRuns {
 public:
  explicit StudiesOfRuns(const RunStore& store) : store_(store) {}

  // "" of a run that is no trial.
  const std::string& study_of(const Path& run) {
    const std::string name = run.filename().string();
    if (name.empty() || name.find_first_not_of("0123456789") != name.npos) return none_;
    const Path folder = run.parent_path();
    const auto [known, is_new] = known_.try_emplace(folder);
    if (is_new && tuning::has_study(folder)) known->second = store_.id_of(folder);
    return known->second;
  }

 private:
  const RunStore& store_;
  const std::string none_{};
  std::map<Path, std::string> known_;
};

// A field of a CSV file. Programs that calculate take a text that begins so for a formula.
std::string csv_field(const std::string& text) {
  const bool is_formula =
      !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
  if (!is_formula && text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = is_formula ? "\"'" : "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

RunsApi::RunsApi(const StoreMirrors& mirrors, LiveUpdates& updates)
    : mirrors_(mirrors), updates_(updates), store_(mirrors.folders()) {
  if (store_.roots().empty()) return;
  watch_.emplace([this](const std::set<Path>& folders) {
    const std::lock_guard lock(mutex_);
    changed_.insert(folders.begin(), folders.end());
    has_work_.notify_all();
  });
  for (const Path& folder : store_.folders()) watch_->add(folder);
  reader_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
}

// In this order: the watch calls what uses the others.
RunsApi::~RunsApi() {
  watch_.reset();
  reader_ = {};
  store_.save_index();
}

void RunsApi::look(const std::stop_token& stop) {
  const auto began = Clock::now();
  const std::size_t count = read_all(stop);
  if (count >= kManyRuns) {
    log::info("read the event files of {} runs seconds={:.1f}", count,
              std::chrono::duration<double>(Clock::now() - began).count());
  }
  auto saved = Clock::now();
  store_.save_index();
  while (!stop.stop_requested()) {
    std::set<Path> folders;
    {
      std::unique_lock lock(mutex_);
      if (!has_work_.wait(lock, stop, [&] { return !changed_.empty(); })) return;
      folders = std::exchange(changed_, {});
    }
    look_at(folders);
    read_all(stop);
    if (Clock::now() - saved < kSaveEvery) continue;
    store_.save_index();
    saved = Clock::now();
  }
}

void RunsApi::look_at(const std::set<Path>& folders) {
  bool has_others = false;
  for (const Path& folder : folders) has_others = store_.look_at(folder) || has_others;
  for (const Path& folder : store_.folders()) watch_->add(folder);
  if (has_others) updates_.publish("list", "{}");
  const auto is_of_study = [](const Path& folder) { return folder.filename() == "study"; };
  if (std::ranges::any_of(folders, is_of_study)) updates_.publish("studies", "{}");
}

std::size_t RunsApi::read_all(const std::stop_token& stop) {
  std::size_t count = 0;
  std::set<std::string> news;
  auto told = Clock::now();
  const auto tell = [&] {
    if (news.empty()) return;
    updates_.publish("runs", text_of(json{{"runs", news}}));
    news.clear();
    told = Clock::now();
  };
  while (!stop.stop_requested()) {
    const auto read = store_.read_next();
    if (!read) break;
    if (read->has_changed) news.insert(read->id);
    count += read->has_changed ? 1 : 0;
    if (Clock::now() - told >= kTellEvery) tell();
  }
  tell();
  return count;
}

serving::HttpResponse RunsApi::list() {
  std::string body = "{\"runs\":[";
  StudiesOfRuns studies(store_);
  // Thousands of runs have the same tags: each list of them is told once.
  json sets = json::array();
  std::map<const RunTags*, std::size_t> places;
  const std::vector<RunSummary> runs = store_.list();
  for (const RunSummary& run : runs) {
    const auto [place, is_new] = places.emplace(run.tags.get(), sets.size());
    if (is_new) sets.push_back(tags_json(*run.tags));
    json one = json_of(run);
    one["tagSet"] = place->second;
    if (const std::string& study = studies.study_of(run.folder); !study.empty()) {
      one["study"] = study;
    }
    if (body.back() == '}') body += ',';
    append_run(one, run.record, body);
  }
  return {.body = body + "],\"tagSets\":" + text_of(sets) + "}"};
}

serving::HttpResponse RunsApi::show(const ApiRequest& request) {
  const std::string id = request.first("id").value_or("");
  json scalars = json::array();
  for (const ScalarSummary& one : store_.scalars(id)) {
    scalars.push_back({{"evaluation", one.evaluation},
                       {"tag", one.tag},
                       {"points", one.count},
                       {"last", point_json(one.last)},
                       {"least", point_json(one.least)},
                       {"most", point_json(one.most)}});
  }
  const RunSummary run = store_.summary(id);
  json out = json_of(run);
  out.update(tags_json(*run.tags));
  if (const std::string study = StudiesOfRuns(store_).study_of(run.folder); !study.empty()) {
    out["study"] = study;
  }
  const json record = json::parse(store_.record(id), nullptr, /*allow_exceptions=*/false);
  out["record"] = record.is_object() ? record : json::object();
  out["scalars"] = std::move(scalars);
  out["folder"] = mirrors_.original_of(run.folder).string();
  out["files"] = files_json(run.folder);
  return {.body = text_of(out)};
}

serving::HttpResponse RunsApi::set_notes(const ApiRequest& request) {
  const std::string id = request.first("id").value_or("");
  const RunNotes notes = run_notes_from_json(request.body);
  const Path folder = store_.summary(id).folder;
  // Those who look at the store see them too.
  if (mirrors_.is_mirrored(folder)) write_run_notes(mirrors_.original_of(folder), notes);
  store_.set_notes(id, notes);
  log::info("kept notes of the run {} for a page", store_.summary(id).folder.string());
  updates_.publish("runs", text_of(json{{"runs", json::array({id})}}));
  return {.body = "{}"};
}

serving::HttpResponse RunsApi::scalars(const ApiRequest& request) {
  const std::size_t most = request.number("points", kUsualPoints, 2, kMostPoints);
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "{{\"curves\":[");
  bool is_first = true;
  for (const Curve& curve : store_.curves(runs_of(request), tag_of(request), most)) {
    if (!std::exchange(is_first, false)) out.push_back(',');
    append_curve(curve, out);
  }
  fmt::format_to(std::back_inserter(out), "]}}");
  return {.body = fmt::to_string(out)};
}

serving::HttpResponse RunsApi::media(const ApiRequest& request) {
  json list = json::array();
  for (const RunMedia& media : store_.media(runs_of(request))) {
    json steps = json::array();
    json times = json::array();
    for (const MediaPlace& place : media.places) {
      steps.push_back(place.step);
      times.push_back(std::isfinite(place.time) ? place.time : 0);
    }
    list.push_back({{"run", media.run},
                    {"evaluation", media.evaluation},
                    {"kind", name_of(media.key.first)},
                    {"tag", media.key.second},
                    {"steps", std::move(steps)},
                    {"times", std::move(times)}});
  }
  return {.body = text_of(json{{"media", std::move(list)}})};
}

serving::HttpResponse RunsApi::media_item(const ApiRequest& request) {
  const auto kind = media_kind_of(request.first("kind").value_or(""));
  if (!kind) throw InvalidArgument("kind is image, histogram, text, graph or pr_curve");
  const double step = number_of("step", request.first("step").value_or(""));
  MediaItem item =
      store_.media_item(request.first("run").value_or(""), request.first("evaluation").value_or(""),
                        {*kind, tag_of(request)}, static_cast<std::int64_t>(step));
  return {.content_type = std::move(item.content_type), .body = std::move(item.bytes)};
}

serving::HttpResponse RunsApi::media_bands(const ApiRequest& request) {
  json steps = json::array();
  json bands = json::array();
  for (const auto& [step, histogram] :
       store_.histograms(request.first("run").value_or(""),
                         request.first("evaluation").value_or(""), tag_of(request))) {
    steps.push_back(step);
    json values = json::array();
    for (const double value : bands_of(histogram)) {
      values.push_back(std::isfinite(value) ? json(value) : json());
    }
    bands.push_back(std::move(values));
  }
  return {.body = text_of(json{
              {"shares", kBandShares}, {"steps", std::move(steps)}, {"bands", std::move(bands)}})};
}

serving::HttpResponse RunsApi::csv(const ApiRequest& request) {
  const std::string tag = tag_of(request);
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "run,evaluation,step,wall_time,value\n");
  for (const Curve& curve : store_.curves(runs_of(request), tag, 0)) {
    const std::string run = csv_field(curve.run);
    const std::string evaluation = csv_field(curve.evaluation);
    for (const Point& point : curve.points) {
      fmt::format_to(std::back_inserter(out), "{},{},{},{:.6f},{}\n", run, evaluation, point.step,
                     point.time, point.value);
    }
  }
  std::string name;
  for (const char c : tag.substr(0, 80)) {
    name += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  }
  return {
      .content_type = "text/csv; charset=utf-8",
      .body = fmt::to_string(out),
      .headers = {{"Content-Disposition", fmt::format("attachment; filename=\"{}.csv\"", name)}}};
}

}  // namespace muster::console
