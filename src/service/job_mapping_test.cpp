#include "service/job_mapping.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace salus::service {
namespace {

namespace fs = std::filesystem;

class JobMappingTest : public ::testing::Test {
protected:
    JobMappingTest() {
        char name[] = "/tmp/salus-mapping-test-XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory_ = name;
    }
    ~JobMappingTest() override { fs::remove_all(directory_); }

    std::string content(const std::string& name) const {
        std::ifstream file(directory_ + "/" + name);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }
    bool exists(const std::string& name) const { return fs::exists(directory_ + "/" + name); }

    std::string directory_;
};

TEST_F(JobMappingTest, AGpuHasAFileWithItsJobsWhileItHasAny) {
    {
        JobMapping mapping(directory_);
        ASSERT_TRUE(mapping.write(0, {3, 12}).ok());
        ASSERT_TRUE(mapping.write(7, {4}).ok());
        EXPECT_EQ(content("0"), "3\n12\n");
        EXPECT_EQ(content("7"), "4\n");
        EXPECT_FALSE(exists("0.new"));
        EXPECT_EQ(fs::status(directory_ + "/0").permissions(), fs::perms{0644});
        ASSERT_TRUE(mapping.write(0, {12}).ok());
        EXPECT_EQ(content("0"), "12\n");
        ASSERT_TRUE(mapping.write(7, {}).ok());
        EXPECT_FALSE(exists("7")) << "the exporter would leave out a GPU whose file is empty";
    }
    EXPECT_TRUE(fs::is_empty(directory_)) << "nobody would keep the files true";
}

TEST_F(JobMappingTest, WhatAKilledServiceLeftIsReplaced) {
    std::ofstream(directory_ + "/0") << "99\n";
    JobMapping mapping(directory_);
    ASSERT_TRUE(mapping.write(0, {}).ok());
    EXPECT_FALSE(exists("0"));
}

TEST_F(JobMappingTest, TheDirectoryCanChange) {
    fs::create_directory(directory_ + "/other");
    JobMapping mapping(directory_);
    ASSERT_TRUE(mapping.write(0, {1}).ok());
    mapping.move_to(directory_ + "/other");
    EXPECT_FALSE(exists("0"));
    ASSERT_TRUE(mapping.write(0, {1}).ok());
    EXPECT_EQ(content("other/0"), "1\n");
    fs::remove_all(directory_ + "/other");
    EXPECT_FALSE(mapping.write(0, {2}).ok());
}

TEST_F(JobMappingTest, OnlyATrustedDirectoryWillDo) {
    EXPECT_EQ(why_no_job_mapping_in(""), "");
    EXPECT_EQ(why_no_job_mapping_in(directory_), "");
    EXPECT_EQ(why_no_job_mapping_in(directory_ + "/none"), "there is no directory '" + directory_ + "/none'");
    ::chmod(directory_.c_str(), 0777);
    EXPECT_NE(why_no_job_mapping_in(directory_), "");
}

}  // namespace
}  // namespace salus::service
