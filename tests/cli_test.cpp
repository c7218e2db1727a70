// The command line as a user meets it: what it prints, where, and with which exit status.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policies/table.h"

namespace salus {
namespace {

struct Outcome {
    int status = -1;
    std::string out;
    std::string err;
};

std::string read_whole(std::FILE* file) {
    std::string text;
    std::array<char, 4096> block;
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), file)) text.append(block.data(), got);
    return text;
}

std::string temporary(const std::string& name) {
    return testing::TempDir() + "salus_cli_" + std::to_string(::getpid()) + "_" + name;
}

Outcome salus_command(const std::string& arguments) {
    const std::string err_file = temporary("stderr");
    std::FILE* pipe = popen((std::string(SALUS_BINARY) + " " + arguments + " 2>" + err_file).c_str(), "r");
    Outcome run;
    run.out = read_whole(pipe);
    run.status = WEXITSTATUS(pclose(pipe));
    std::FILE* err = std::fopen(err_file.c_str(), "r");
    run.err = read_whole(err);
    std::fclose(err);
    std::remove(err_file.c_str());
    return run;
}

std::string write_temporary(const std::string& name, const std::string& content) {
    const std::string path = temporary(name);
    std::ofstream(path) << content;
    return path;
}

TEST(CommandLine, TheVersionIsThatOfTheFile) {
    std::string version;
    std::ifstream(SALUS_SOURCE_DIR "/VERSION") >> version;
    EXPECT_EQ(salus_command("--version").out, "salus " + version + "\n");
    EXPECT_EQ(salus_command("version").out, "salus " + version + "\n");
}

TEST(CommandLine, HelpIsTheSameAsACommandAndAsAnOption) {
    for (const std::string command : {"", "run", "kill", "sim", "sim fuzz", "history clear"}) {
        const Outcome help = salus_command("help " + command);
        EXPECT_EQ(help.status, 0) << help.err;
        EXPECT_EQ(help.out, salus_command(command + " --help").out) << command;
    }
}

TEST(CommandLine, BadInputIsOneLineAndStatusTwo) {
    const std::string header = "name,arrival_s,iterations,iteration_ms,persistent_mib,ephemeral_mib\n";
    const std::string bad_row = write_temporary("bad.csv", header + "a,0,10,nan,1,1\n");
    const std::string negative = write_temporary("negative.csv", header + "a,0,10,5,-1,1\n");
    const std::string no_rows = write_temporary("empty.csv", header);
    const std::string no_trace = write_temporary("x.trace", "hello\n");
    struct Case {
        std::string arguments;
        std::string says;
    };
    const std::vector<Case> cases = {
        {"", "no command given; salus help lists them"},
        {"polcy", "no command 'polcy'; did you mean 'policy'?"},
        {"polcy srtf --json", "no command 'polcy'; did you mean 'policy'?"},
        {"gandiva", "no command 'gandiva'; salus help lists them"},
        {"''", "no command ''; salus help lists them"},
        {"sim fuz", "no command 'fuz'; did you mean 'fuzz'?"},
        {"history claer", "no command 'claer'; did you mean 'clear'?"},
        {"ps --jsno", "ps: no option '--jsno'; did you mean '--json'?"},
        {"pause --foo", "pause: no option '--foo'; salus help pause lists them"},
        {"run --detatch -- true", "run: no option '--detatch'; did you mean '--detach'?"},
        {"run --wieght=2 -- true", "run: no option '--wieght'; did you mean '--weight'?"},
        {"run --name", "--name needs a value"},
        {"run --name a --name b -- true", "--name is given twice"},
        {"run --priority high -- true", "--priority must be a whole number; got 'high'"},
        {"run --priority 99999999999 -- true", "--priority: '99999999999' is out of range"},
        {"run --weight heavy -- true", "--weight must be a number; got 'heavy'"},
        {"run --detach=maybe -- true", "--detach takes no value"},
        {"logs -n few job", "--lines must be a whole number; got 'few'"},
        {"top --interval often", "--interval must be a number; got 'often'"},
        {"pause", "pause needs JOB; salus help pause explains it"},
        {"pause a b", "pause: 'b' is one argument too many; salus help pause explains it"},
        {"ps top", "ps: 'top' is one argument too many; salus help ps explains it"},
        {"wait", "wait needs JOBS; salus help wait explains it"},
        {"set 3", "set needs ASSIGNMENTS; salus help set explains it"},
        {"completion", "completion needs SHELL; salus help completion explains it"},
        {"sim fuzz --seeds 1 --threads 0", "--threads: '0' is out of range"},
        {"help polcy", "no command 'polcy'; did you mean 'policy'?"},
        {"help sim nix", "no command 'nix'"},
        {"kernel", "kernel: no command given; salus help kernel lists them"},
        {"start --capacity 4GiB", "start: no option '--capacity'; options of the service follow --"},
        {"run --memory-hint 12+13 -- true", "--memory-hint: '12' has no unit and would be bytes; write 12MiB"},
        {"run --memory-hint 1GiB+13 -- true", "--memory-hint: '13' has no unit and would be bytes; write 13MiB"},
        {"usage --since ''", "--since must be a time ago"},
        {"--nonsense", "no option '--nonsense'; salus help lists them"},
        {"run --weight 1e-300 -- true", "--weight must be from 0.000001 to 1000000; got '1e-300'"},
        {"run --weight 0 -- true", "--weight must be from 0.000001 to 1000000; got '0'"},
        {"run --weight nan -- true", "--weight must be from 0.000001 to 1000000; got 'nan'"},
        {"run --memory-hint 2000TiB+1GiB -- true", "--memory-hint must be P+T"},
        {"sim", "sim needs either --jobs FILE.csv or --workload NAME"},
        {"sim --workload uniform --jobs x.csv", "sim needs either"},
        {"sim --workload uniform --policy strf", "unknown policy 'strf'; did you mean 'srtf'?"},
        {"sim --workload uniform --policy fifo,,rr", "unknown policy ''"},
        {"sim --workload unform", "unknown workload 'unform'; did you mean 'uniform'?"},
        {"sim --workload uniform:0", "the number of jobs is a whole number"},
        {"sim --workload uniform:x", "the number of jobs is a whole number"},
        {"sim --workload uniform --capacity 0", "--capacity: '0' is not a size"},
        {"sim --workload uniform --capacity -1GiB", "--capacity"},
        {"sim --workload uniform --capacity nan", "--capacity: 'nan' is not a size"},
        {"sim --workload salus-100 --capacity 1GiB", "could never fit: it needs"},
        {"sim --workload uniform --lanes 0", "--lanes: '0'"},
        {"sim --workload uniform --lanes many", "--lanes: 'many'"},
        {"sim --workload uniform --paging maybe", "--paging: 'maybe' is neither 'on' nor 'off'"},
        {"sim --workload uniform --page-gbps 0", "--page-gbps: 0 is out of range"},
        {"sim --workload uniform --page-gbps 1e-300", "is out of range"},
        {"sim --workload uniform fuzz --seeds 1", "options of sim cannot be combined with its subcommands"},
        {"sim --workload uniform --page-gbps nan", "--page-gbps: 'nan' is not a number"},
        {"sim --workload uniform --switch-us=-1", "--switch-us: -1 is out of range"},
        {"sim --workload uniform --profile guessed", "--profile: 'guessed'"},
        {"sim --workload uniform --occupancy 1.5", "--occupancy: 1.5 is out of range"},
        {"sim --workload uniform --gates closed", "--gates: 'closed' is neither 'on' nor 'off'"},
        {"sim --workload uniform --occupancy 0", "--occupancy: 0 is out of range"},
        {"sim --workload uniform --seed 5..2", "'5..2' is neither a seed"},
        {"sim --workload uniform --seed x", "'x' is neither a seed"},
        {"sim --workload uniform --timeline x.png", "ends in neither .svg nor .json"},
        {"sim --workload uniform --timeline x.svg --seed 1..2", "--timeline draws one run"},
        {"sim --workload uniform:1 --timeline /nonexistent/x.svg", "cannot write '/nonexistent/x.svg'"},
        {"sim --workload uniform --record x.trace", "--record keeps one run"},
        {"sim --workload uniform --policy fair --record /nonexistent/x.trace", "cannot write '/nonexistent/x.trace'"},
        {"sim --workload uniform --no-such-option", "--no-such-option"},
        {"sim --jobs /nonexistent.csv", "cannot open '/nonexistent.csv'"},
        {"sim --jobs " + bad_row, bad_row + ":2: column 4 (iteration_ms): 'nan' is not a number"},
        {"sim --jobs " + negative, negative + ":2: column 5 (persistent_mib): '-1'"},
        {"sim --jobs " + no_rows, "no job follows the header"},
        {"sim fuzz", "--seeds"},
        {"sim fuzz --seeds 1..x", "'1..x' is neither a seed"},
        {"sim fuzz --seeds 1 --canary tit", "unknown canary 'tit'"},
        {"sim replay /nonexistent.trace", "cannot open"},
        {"sim replay " + no_trace, "line 1: not a salus trace"},
    };
    for (const Case& c : cases) {
        const Outcome run = salus_command(c.arguments);
        EXPECT_EQ(run.status, 2) << c.arguments << "\n" << run.err;
        EXPECT_EQ(run.out, "") << c.arguments;
        EXPECT_NE(run.err.find(c.says), std::string::npos) << c.arguments << "\nprinted: " << run.err;
        EXPECT_TRUE(run.err.starts_with("salus: ")) << run.err;
        EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << c.arguments << "\nprinted: " << run.err;
    }
    for (const std::string& path : {bad_row, negative, no_rows, no_trace}) std::remove(path.c_str());
}

TEST(CommandLine, WhatCannotBeWrittenAfterAllIsStatusOneAndCostsNoTable) {
    const Outcome run = salus_command("sim --workload uniform:3 --policy fair --record /dev/full");
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.err.find("cannot write '/dev/full'"), std::string::npos) << run.err;
    EXPECT_NE(run.out.find("fair"), std::string::npos) << run.out;
}

TEST(CommandLine, LookingWhetherAFileCanBeWrittenLeavesNone) {
    const std::string timeline = temporary("unused.svg");
    EXPECT_EQ(salus_command("sim --workload salus-100 --capacity 1GiB --timeline " + timeline).status, 2);
    EXPECT_NE(::access(timeline.c_str(), F_OK), 0);
}

/// What is left of a line once the shell has taken its quotes: nothing if one is open at its end.
bool quotes_are_closed(const std::string& line) {
    bool open = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\') ++i;
        else if (line[i] == '\'') open = !open;
    }
    return !open;
}

TEST(CommandLine, CompletionScriptsAreTakenByTheirShells) {
    const Outcome fish = salus_command("completion fish");
    EXPECT_NE(fish.out.find("\\'"), std::string::npos) << "some description has an apostrophe: else this tests nothing";
    std::istringstream lines(fish.out);
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(quotes_are_closed(line)) << line;
    for (const std::string shell : {"bash", "zsh", "fish"}) {
        if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) continue;
        const std::string script = write_temporary("completion", salus_command("completion " + shell).out);
        EXPECT_EQ(std::system((shell + " -n " + script).c_str()), 0) << shell;
        std::remove(script.c_str());
    }
}

/// What bash offers at the end of these words, where `salus ps` lists one job with a plain name and one with an evil one.
std::string offered(const std::string& words, int last) {
    const std::string salus =
        write_temporary("salus", "#!/bin/sh\nprintf '    \"name\": \"%s\",\\n' night '$(touch evil)'\n");
    EXPECT_EQ(::chmod(salus.c_str(), 0755), 0);
    const std::string salusd =
        write_temporary("salusd",
                        "#!/bin/sh\necho '  -h,--help  Print this'\necho '  --lanes UINT  lanes'\necho '  --config=x'\n"
                        "echo '  --mps auto|on|off=auto  run --it'\n");
    EXPECT_EQ(::chmod(salusd.c_str(), 0755), 0);
    const std::string script =
        write_temporary("completion", salus_command("completion bash").out + "COMP_WORDS=(" + words +
                                          ") COMP_CWORD=" + std::to_string(last) + "\n_salus " + salus +
                                          "\necho \"${COMPREPLY[*]}\" >" + temporary("offered"));
    EXPECT_EQ(std::system(("bash " + script).c_str()), 0);
    std::ifstream answer(temporary("offered"));
    std::string line;
    std::getline(answer, line);
    for (const std::string& path : {salus, salusd, script, temporary("offered")}) std::remove(path.c_str());
    return line;
}

TEST(CommandLine, BashCompletesCommandsPoliciesAndJobs) {
    EXPECT_EQ(offered("salus st", 1), "status start stop");
    EXPECT_EQ(offered("salus policy f", 2), "fifo fair");
    EXPECT_EQ(offered("salus sim --policy sr", 3), "srtf");
    for (const std::string command : {"pause", "resume", "kill", "set", "logs"})
        EXPECT_EQ(offered("salus " + command + " n", 2), "night") << command;
    EXPECT_EQ(offered("salus kill --n", 2), "--now");
    EXPECT_NE(::access("evil", F_OK), 0) << "a job's name was run as a command";
}

TEST(CommandLine, BashCompletesTheValuesOfOptions) {
    EXPECT_EQ(offered("salus run --class \"\"", 3), "batch interactive");
    EXPECT_EQ(offered("salus run --shim o", 3), "on off");
    EXPECT_EQ(offered("salus bench x.csv --policy fi", 4), "fifo");
    EXPECT_EQ(offered("salus set night pr", 3), "priority=");
    EXPECT_EQ(offered("salus help ke", 2), "kernel");
    EXPECT_EQ(offered("salus kernel in", 2), "install");
    EXPECT_EQ(offered("salus kernel install --dis", 3), "--display-name");
    EXPECT_EQ(offered("salus completion f", 2), "fish");
    // bash takes words apart at "=".
    EXPECT_EQ(offered("salus run --class = int", 4), "interactive");
    EXPECT_EQ(offered("salus run --class =", 3), "batch interactive");
    EXPECT_EQ(offered("salus set night class = b", 5), "batch");
    EXPECT_EQ(offered("salus sim --workload tun", 3), "tuning-300 tuning-300-resnet50");
    EXPECT_EQ(offered("salus sim --profile kn", 3), "known");
    // Nothing: then bash offers files.
    EXPECT_EQ(offered("salus kernel install --python \"\"", 4), "");
    EXPECT_EQ(offered("salus sim --jobs \"\"", 3), "");
}

TEST(CommandLine, BashCompletesTheOptionsOfTheService) {
    EXPECT_EQ(offered("salus start -- --", 3), "--lanes --config --mps");
    EXPECT_EQ(offered("salus start -- --mps o", 4), "on off");
    EXPECT_EQ(offered("salus start -- --lanes 2 --m", 5), "--mps");
    EXPECT_EQ(offered("salus start -", 2), "--help");
}

/// What the shell prints for this script, where `salus ps` lists one job with a plain name and one with an evil one.
std::string said_by(const std::string& shell, const std::string& script) {
    const std::string bin = temporary("bin");
    std::filesystem::create_directory(bin);
    std::ofstream(bin + "/salus") << "#!/bin/sh\nprintf '    \"name\": \"%s\",\\n' night '$(touch evil)'\n";
    EXPECT_EQ(::chmod((bin + "/salus").c_str(), 0755), 0);
    const std::string file = write_temporary("script", script);
    std::FILE* pipe = popen(("PATH=" + bin + ":$PATH " + shell + " " + file + " 2>&1").c_str(), "r");
    const std::string out = read_whole(pipe);
    pclose(pipe);
    std::filesystem::remove_all(bin);
    std::remove(file.c_str());
    return out;
}

bool is_installed(const std::string& shell) { return std::system(("command -v " + shell + " >/dev/null").c_str()) == 0; }

TEST(CommandLine, FishCompletesCommandsJobsAndValues) {
    if (!is_installed("fish")) GTEST_SKIP() << "there is no fish";
    const std::string completion = salus_command("completion fish").out;
    const auto offers = [&](const std::string& line) {
        std::istringstream lines(said_by("fish --no-config", completion + "\ncomplete -C '" + line + "'\n"));
        std::string all;
        for (std::string word; std::getline(lines, word);) all += (all.empty() ? "" : " ") + word.substr(0, word.find('\t'));
        return all;
    };
    EXPECT_EQ(offers("salus sta"), "start status");
    EXPECT_EQ(offers("salus policy f"), "fair fifo");
    EXPECT_EQ(offers("salus kill n"), "night");
    EXPECT_EQ(offers("salus run --class "), "batch interactive");
    EXPECT_EQ(offers("salus kernel in"), "install");
    EXPECT_EQ(offers("salus kernel install --display"), "--display-name");
    EXPECT_EQ(offers("salus sim --profile "), "known learned");
    EXPECT_NE(::access("evil", F_OK), 0) << "a job's name was run as a command";
}

TEST(CommandLine, ZshCompletesAsAFunctionThatItLoads) {
    if (!is_installed("zsh")) GTEST_SKIP() << "there is no zsh";
    const std::string completion = salus_command("completion zsh").out;
    EXPECT_TRUE(completion.starts_with("#compdef salus\n"));
    // What zsh would complete, without a terminal: its own function is replaced by one that calls ours as it would.
    const std::string script = "autoload -U compinit && compinit -D -u\n" + completion +
                               "setopt ksharrays\nCOMP_WORDS=(salus policy f)\nCOMP_CWORD=2\n"
                               "compgen() { print -l -- ${=2} | grep -e \"^${argv[-1]}\"; }\n"
                               "_salus_words salus\nprint -r -- ${COMPREPLY[*]}\nprint -r -- ${_comps[salus]}\n"
                               "COMP_WORDS=(salus run -- ec)\nCOMP_CWORD=3\n_salus_words salus\n";
    const std::string said = said_by("zsh -f", script);
    EXPECT_EQ(said.find("not found"), std::string::npos) << said;
    EXPECT_NE(said.find("fifo fair"), std::string::npos) << said;
    EXPECT_NE(said.find("_bash_complete"), std::string::npos) << said;
}

TEST(CommandLine, HelpNamesEveryPolicy) {
    const Outcome run = salus_command("sim --help");
    EXPECT_EQ(run.status, 0);
    for (const Policy* policy : all_policies())
        EXPECT_NE(run.out.find(policy->info.name), std::string::npos) << policy->info.name;
}

TEST(CommandLine, JsonHasTheKeysThatScriptsRelyOn) {
    const Outcome run = salus_command("sim --workload uniform:5 --policy all --json");
    ASSERT_EQ(run.status, 0) << run.err;
    const auto json = nlohmann::json::parse(run.out);
    ASSERT_EQ(json.at("policies").size(), all_policies().size());
    for (const auto& row : json.at("policies")) {
        EXPECT_NE(find_policy(row.at("policy").get<std::string>()), nullptr);
        for (const char* key : {"makespan_s", "mean_queue_s", "mean_completion_s", "p95_completion_s", "busy_share",
                                "memory_peak_mib", "memory_static_mib", "switches", "paged_mib", "fairness"}) {
            EXPECT_TRUE(row.at(key).is_number()) << key;
        }
    }
}

TEST(CommandLine, TheSameSeedGivesTheSameBytes) {
    for (const char* arguments : {"sim --workload salus-100:20 --policy all --seed 3 --json",
                                  "sim --workload inference-42 --policy fair,priority --json"}) {
        const Outcome first = salus_command(arguments);
        const Outcome second = salus_command(arguments);
        ASSERT_EQ(first.status, 0) << first.err;
        EXPECT_EQ(first.out, second.out) << arguments;
    }
    EXPECT_NE(salus_command("sim --workload salus-100:20 --policy srtf --seed 3 --json").out,
              salus_command("sim --workload salus-100:20 --policy srtf --seed 4 --json").out);
}

TEST(CommandLine, ARecordedRunReplaysToTheSameActions) {
    const std::string trace = temporary("run.trace");
    ASSERT_EQ(salus_command("sim --workload salus-100:12 --policy fair --record " + trace).status, 0);
    const Outcome replay = salus_command("sim replay " + trace);
    EXPECT_EQ(replay.status, 0) << replay.err;
    EXPECT_NE(replay.out.find("replayed to the same"), std::string::npos);
    std::remove(trace.c_str());
}

TEST(CommandLine, AFailingSeedNamesTheCommandThatReplaysIt) {
    const Outcome run = salus_command("sim fuzz --seeds 1..20 --canary dreamer");
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.out.find("replay it: salus sim fuzz --seeds 1 --canary dreamer"), std::string::npos) << run.out;
}

}  // namespace
}  // namespace salus
