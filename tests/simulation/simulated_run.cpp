#include "tests/simulation/simulated_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/program.h"
#include "muster/base/random.h"
#include "tests/cluster_job.h"
#include "tests/simulation/judge.h"

namespace muster::simulation {
namespace {

namespace fs = std::filesystem;

/// So many checkpoints are saved on the way to the last step.
constexpr std::int64_t kSaves = 4;
/// A supervisor starts a task again so much after its end.
constexpr Time kRestartPause = 100 * kMillisecond;
/// Those that come back after all others have left wait for the chief, and are asked to end.
constexpr Time kFarewell = 5 * kSecond;

int run_job(std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return run_main(
      [&] { return testing::run_cluster_job(static_cast<int>(words.size()), pointers.data()); });
}

std::vector<std::string> job_words(const RunOptions& options, const std::string& folder) {
  return {"cluster_job",
          "--model-dir",
          folder,
          "--steps",
          std::to_string(options.steps),
          "--replicas",
          "4",
          "--save-steps",
          std::to_string(std::max<std::int64_t>(1, options.steps / kSaves))};
}

// Names of files may be any bytes.
std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The words of a child of this process, which is not simulated and leaves no thread behind.
std::string said_by_child(const std::function<std::string()>& say) {
  int ends[2];
  if (::pipe(ends) != 0) throw_errno(errno, "making a pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    try {
      text = say();
    } catch (const std::exception& error) {
      text = text_of({{"error", error.what()}});
    }
    [[maybe_unused]] const auto written = ::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

std::string words_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("status {}", WEXITSTATUS(status));
}

/// A task, as its supervisor knows it.
struct Supervised {
  int process = 0;
  /// Signals that were sent to its process.
  std::set<int> sent{};
  /// Whether its part of the run is over.
  bool left = false;
  /// Whether another process of the task was there, which it may have made way for.
  bool has_met_twin = false;
  Time start_at = kNever;
};

/// A second process of a task.
struct Twin {
  int process = 0;
  std::size_t task = 0;
  Time until = 0;
};

class Run {
 public:
  explicit Run(const RunOptions& options)
      : options_(options), names_(options.layout.tasks()), tasks_(names_.size()) {}

  RunEnd go() {
    fs::remove_all(options_.folder);
    fs::create_directories(options_.folder);
    fs::current_path(options_.folder);
    story_ =
        ::open(options_.story.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (story_ < 0) throw_errno(errno, "creating " + options_.story.string());
    begin_world(options_.seed, story_);
    if (std::ranges::find(options_.faults, Fault::Kind::kCrash, &Fault::kind) !=
        options_.faults.end()) {
      const std::string kept = options_.folder.string() + ".kept";
      fs::remove_all(kept);
      fs::create_directories(kept);
      std::ranges::copy(kept, world().kept_folder.begin());
    }
    draw_weather();
    tell(0, fmt::format("layout {} seed {} faults: {}", options_.layout.name, options_.seed,
                        to_text(options_.faults, names_)));
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      tasks_[i].start_at = draw_between(0, options_.layout.start_within);
    supervise();
    if (end_.finding.empty()) finish();
    for (const Supervised& task : tasks_) {
      if (task.process != 0) kill_process(task.process);
    }
    end_twins(kNever);
    if (end_.finding.empty()) judge();
    end_.length = world().now;
    end_.switches = world().switches;
    tell(0, end_.finding.empty() ? "as it should be" : "FOUND: " + end_.finding);
    return end_;
  }

 private:
  void draw_weather() {
    Weather& weather = world().weather;
    weather.most_latency = weather.least_latency + draw_between(0, 2 * kMillisecond);
    if (draw_below(2) == 0)
      weather.preemptions_per_million = static_cast<std::uint32_t>(draw_below(30'000));
    if (draw_below(3) == 0)
      weather.short_sends_per_million = static_cast<std::uint32_t>(draw_below(300'000));
    Random random(options_.seed, 0, 9);
    if (random.below(3) == 0)
      weather.short_writes_per_million = static_cast<std::uint32_t>(random.below(300'000));
  }

  std::string environment_of(std::size_t task) const {
    const auto& layout = options_.layout;
    std::string lists[3];
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::size_t job = i == 0 ? 0 : i <= static_cast<std::size_t>(layout.workers) ? 1 : 2;
      lists[job] += fmt::format("{}\"127.0.0.{}:2222\"", lists[job].empty() ? "" : ", ", i + 1);
    }
    const auto dash = names_[task].find('-');
    return fmt::format(
        R"({{"cluster": {{"chief": [{}], "worker": [{}], "ps": [{}]}}, "task": {{"type": "{}", "index": {}}}}})",
        lists[0], lists[1], lists[2], names_[task].substr(0, dash), names_[task].substr(dash + 1));
  }

  const std::string& folder_of(std::size_t task) const {
    return names_[options_.layout.shares_folder ? 0 : task];
  }

  int start_job(std::size_t task, const std::string& name) {
    ++end_.starts;
    const int process = start_process(name, static_cast<int>(task) + 1, [this, task] {
      ::setenv("TF_CONFIG", environment_of(task).c_str(), 1);
      const Layout& layout = options_.layout;
      for (const auto& [variable, value] : layout.environment)
        ::setenv(variable.c_str(), value.c_str(), 1);
      std::vector<std::string> words = job_words(options_, folder_of(task));
      const std::vector<std::string> more{"--step-ms", "10", "--peer-timeout-ms", "1500"};
      words.insert(words.end(), more.begin(), more.end());
      words.insert(words.end(), layout.flags.begin(), layout.flags.end());
      return run_job(std::move(words));
    });
    tell(process, "starts");
    return process;
  }

  void start(std::size_t task) {
    Supervised& one = tasks_[task];
    one.start_at = kNever;
    one.sent.clear();
    one.process = start_job(task, names_[task]);
    one.has_met_twin = std::ranges::find(twins_, task, &Twin::task) != twins_.end();
    excuse(one.process, one.has_met_twin);
  }

  static void excuse(int process, bool excused) {
    world().processes[static_cast<std::size_t>(process)].excused = excused;
  }

  // The first process of the task, if it is there, has what the second one wants.
  void start_twin(std::size_t task, Time until) {
    Twin twin{.process = start_job(task, "twin-" + names_[task]), .task = task, .until = until};
    excuse(twin.process, true);
    twins_.push_back(twin);
  }

  // Those whose time has come.
  void end_twins(Time now) {
    std::erase_if(twins_, [&](const Twin& twin) {
      if (twin.until > now) return false;
      tell(twin.process, "is killed");
      kill_process(twin.process);
      return true;
    });
  }

  Time next_time() const {
    Time next = limit_;
    if (next_fault_ < options_.faults.size())
      next = std::min(next, options_.faults[next_fault_].at);
    for (const Supervised& task : tasks_) next = std::min(next, task.start_at);
    for (const Twin& twin : twins_) next = std::min(next, twin.until);
    return next;
  }

  void start_those_due() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].start_at <= world().now) start(i);
    }
  }

  void supervise() {
    limit_ = options_.patience;
    while (!over_ && end_.finding.empty()) {
      const Time next = next_time();
      int status = 0;
      const int ended = world().now < next ? run_until(next, status) : 0;
      if (!stuck().empty()) return find(stuck());
      if (ended != 0) follow_end(ended, status);
      if (over_ || !end_.finding.empty()) return;
      end_twins(world().now);
      start_those_due();
      strike_if_due();
      if (world().now >= limit_) {
        find(fmt::format("the run has not ended {:.0f} s after the last fault: it waits for ever",
                         static_cast<double>(options_.patience) / kSecond));
      }
    }
  }

  // False where it was none.
  bool forget_twin(int process, int status) {
    const auto twin = std::ranges::find(twins_, process, &Twin::process);
    if (twin == twins_.end()) return false;
    tell(process, "ended with " + words_of(status));
    if (WIFSIGNALED(status))
      find(fmt::format("a second {} was ended by {}", names_[twin->task], words_of(status)));
    twins_.erase(twin);
    return true;
  }

  std::size_t task_of(int process) const {
    return static_cast<std::size_t>(std::ranges::find(tasks_, process, &Supervised::process) -
                                    tasks_.begin());
  }

  void find(std::string finding) {
    if (end_.finding.empty()) end_.finding = std::move(finding);
  }

  // Whether the end follows from what was done to the task.
  bool note_end(std::size_t index, int status) {
    Supervised& task = tasks_[index];
    tell(task.process, "ended with " + words_of(status));
    task.process = 0;
    if (WIFSIGNALED(status)) {
      if (task.sent.contains(WTERMSIG(status))) return true;
      find(fmt::format("{} was ended by signal {}", names_[index], WTERMSIG(status)));
      return false;
    }
    const int code = WEXITSTATUS(status);
    // A chief that is asked to stop stops the others before it ends.
    const bool asked =
        task.sent.contains(SIGTERM) || asked_to_stop_ || tasks_[0].sent.contains(SIGTERM);
    if (code == 0 || (code == 128 + SIGTERM && asked)) return true;
    // One that comes when the run is over finds no chief, and one without room on its disk says so.
    if (code == kExitTryAgain && over_) return true;
    if (disks_were_full_ || task.has_met_twin) return true;
    find(fmt::format("{} ended with status {}", names_[index], code));
    return false;
  }

  void follow_end(int process, int status) {
    if (forget_twin(process, status)) return;
    const std::size_t index = task_of(process);
    Supervised& task = tasks_[index];
    if (index == 0 && task.sent.contains(SIGTERM)) asked_to_stop_ = true;
    if (!note_end(index, status)) return;
    if (status == 0) {
      task.left = true;
      over_ = index == 0;
      if (over_) first_error_ = world().first_error.data();
      return;
    }
    task.start_at = world().now + kRestartPause;
  }

  void strike_if_due() {
    while (next_fault_ < options_.faults.size() && options_.faults[next_fault_].at <= world().now) {
      const Fault& fault = options_.faults[next_fault_++];
      const bool lasts = fault.kind != Fault::Kind::kClock;
      limit_ = std::max(limit_, fault.at + (lasts ? fault.span : 0) + options_.patience);
      tell(0, "fault: " + to_text(fault, names_));
      strike(fault);
    }
  }

  void strike(const Fault& fault) {
    World& w = world();
    const Time until = w.now + fault.span;
    const std::size_t host = static_cast<std::size_t>(fault.task) + 1;
    Supervised& task = tasks_[static_cast<std::size_t>(fault.task)];
    auto& link = w.links[host][static_cast<std::size_t>(fault.other) + 1];
    switch (fault.kind) {
      case Fault::Kind::kKill:
        if (task.process == 0) return;
        tell(task.process, "is killed");
        kill_process(task.process);
        task.process = 0;
        task.start_at = w.now + kRestartPause;
        return;
      case Fault::Kind::kCrash:
        w.hosts[host].down_until = until;
        if (task.process != 0) tell(task.process, "is gone with its host");
        crash_process(task.process);
        std::erase_if(twins_, [&](const Twin& twin) {
          if (twin.task != static_cast<std::size_t>(fault.task)) return false;
          crash_process(twin.process);
          return true;
        });
        if (!options_.layout.shares_folder)
          lose_unsynced(names_[static_cast<std::size_t>(fault.task)]);
        task.process = 0;
        if (!task.left) task.start_at = until;
        return;
      case Fault::Kind::kStop:
        if (task.process != 0) stop_process(task.process, until);
        return;
      case Fault::Kind::kTerminate:
        if (task.process == 0) return;
        task.sent.insert(SIGTERM);
        signal_process(task.process, SIGTERM);
        return;
      case Fault::Kind::kReset:
        reset_a_connection();
        return;
      case Fault::Kind::kCut:
        link.cut_until = until;
        return;
      case Fault::Kind::kIsolate:
        for (std::size_t other = 0; other < kMostHosts; ++other) {
          if (other == host) continue;
          w.links[host][other].cut_until = std::max(w.links[host][other].cut_until, until);
          w.links[other][host].cut_until = std::max(w.links[other][host].cut_until, until);
        }
        return;
      case Fault::Kind::kSlow:
        link.slow_until = until;
        link.more_latency = draw_between(kMillisecond, 200 * kMillisecond);
        return;
      case Fault::Kind::kFull:
        w.hosts[host].full_until = until;
        disks_were_full_ = true;
        return;
      case Fault::Kind::kSlowDisk:
        w.hosts[host].slow_until = until;
        w.hosts[host].delay = draw_between(kMillisecond, 100 * kMillisecond);
        return;
      case Fault::Kind::kClock:
        w.hosts[host].clock_offset += fault.span;
        return;
      case Fault::Kind::kLate:
        if (task.process == 0) task.start_at = std::max(task.start_at, until);
        return;
      case Fault::Kind::kTwin:
        start_twin(static_cast<std::size_t>(fault.task), until);
        return;
    }
  }

  bool all_left() const {
    return std::ranges::all_of(tasks_, [](const Supervised& task) { return task.process == 0; });
  }

  // As a supervisor does it when the chief has ended.
  void finish() {
    end_twins(kNever);
    for (const bool asks : {false, true}) {
      const Time until = world().now + kFarewell;
      for (std::size_t i = 0; i < tasks_.size() && asks; ++i) {
        if (tasks_[i].process == 0) continue;
        tasks_[i].sent.insert(SIGTERM);
        signal_process(tasks_[i].process, SIGTERM);
      }
      while (!all_left() && world().now < until && end_.finding.empty()) {
        int status = 0;
        const int ended = run_until(until, status);
        if (!stuck().empty()) return find(stuck());
        if (ended != 0) note_end(task_of(ended), status);
      }
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].process != 0) {
        find(fmt::format("{} has not ended {:.0f} s after it was asked to", names_[i],
                         static_cast<double>(kFarewell) / kSecond));
      }
    }
  }

  Expected expected() const {
    const Layout& layout = options_.layout;
    Expected expected{.steps = options_.steps,
                      .hash = layout.exact ? options_.hash : "",
                      .ends_at_steps = layout.ends_at_steps,
                      .may_be_cut_short = disks_were_full_,
                      .folder = options_.folder,
                      .model_dir = names_[0]};
    if (std::ranges::find(layout.flags, "--ps-log") != layout.flags.end()) {
      for (std::size_t i = tasks_.size() - static_cast<std::size_t>(layout.servers);
           i < tasks_.size(); ++i)
        expected.step_logs.push_back(options_.folder / folder_of(i));
    }
    return expected;
  }

  void judge() {
    const Verdict verdict = judge_disks(expected());
    end_.hash = verdict.hash;
    if (!verdict.finding.empty()) find(verdict.finding);
    if (!first_error_.empty() && !disks_were_full_) find("an error in a log: " + first_error_);
    if (const std::string lost = find_lost_save(read_file(options_.story)); !lost.empty())
      find(lost);
  }

  const RunOptions& options_;
  const std::vector<std::string> names_;
  std::vector<Supervised> tasks_;
  std::vector<Twin> twins_;
  int story_ = -1;
  std::size_t next_fault_ = 0;
  Time limit_ = 0;
  bool over_ = false;
  bool asked_to_stop_ = false;
  bool disks_were_full_ = false;
  /// The first line of a log that is an error's, until the chief had ended.
  std::string first_error_;
  RunEnd end_;
};

}  // namespace

RunEnd simulate(const RunOptions& options) {
  const std::string said = said_by_child([&] {
    const RunEnd end = Run(options).go();
    return text_of({{"finding", end.finding},
                    {"hash", end.hash},
                    {"length", end.length},
                    {"starts", end.starts},
                    {"switches", end.switches}});
  });
  const auto end = nlohmann::json::parse(said, nullptr, /*allow_exceptions=*/false);
  if (end.is_discarded()) return {.finding = "the simulation has ended without a word"};
  if (end.contains("error")) return {.finding = end["error"].get<std::string>()};
  return {.finding = end["finding"].get<std::string>(),
          .hash = end["hash"].get<std::string>(),
          .length = end["length"].get<Time>(),
          .starts = end["starts"].get<int>(),
          .switches = end["switches"].get<std::uint64_t>()};
}

std::string hash_of_one_process(const RunOptions& options) {
  fs::remove_all(options.folder);
  fs::create_directories(options.folder);
  const std::string said = said_by_child([&] {
    const int status = run_job(job_words(options, (options.folder / "one").string()));
    if (status != 0) throw Internal("one process ended with status {}", status);
    const Verdict verdict =
        judge_disks({.steps = options.steps, .folder = options.folder, .model_dir = "one"});
    if (!verdict.finding.empty()) throw Internal("one process: {}", verdict.finding);
    return text_of({{"hash", verdict.hash}});
  });
  const auto seen = nlohmann::json::parse(said);
  if (seen.contains("error")) throw Internal("{}", seen["error"].get<std::string>());
  return seen["hash"].get<std::string>();
}

}  // namespace muster::simulation
