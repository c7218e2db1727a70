#include "interpose/allocator.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "client/child_fixture.h"
#include "client/memory_fixture.h"
#include "client/service_fixture.h"
#include "salus/salus.h"

namespace salus::interpose {
namespace {

using client::test::in_a_child;
using client::test::Setting;

/// libsalus.so serves as the library whose posix_memalign and free are redirected to a client. It calls them because its own
/// client is disabled and passes requests on to the C library. Redirection cannot be undone, so we fork a child for it.
class AllocatorTest : public client::test::ClientTest {
protected:
    static salus_client* library_that_allocates() {
        const Setting disabled("SALUS_DISABLE", "1");
        salus_client* library = nullptr;
        EXPECT_EQ(salus_attach(nullptr, &library), SALUS_OK);
        return library;
    }
    static bool succeeds_in_a_child(const std::function<void()>& test) {
        return in_a_child([&] {
            test();
            return !HasFailure();
        });
    }
};

TEST_F(AllocatorTest, LargeBlocksOfTheLibraryBecomeTheClients) {
    EXPECT_TRUE(succeeds_in_a_child([&] {
        attach();
        salus_client* library = library_that_allocates();
        void* before = salus_alloc(library, kBlock, SALUS_AUTO);
        ASSERT_TRUE(allocator_of("libsalus.so", *client_).ok());
        EXPECT_TRUE(uses(*client_));

        void* large = salus_alloc(library, kBlock, SALUS_AUTO);
        EXPECT_TRUE(client_->owns(large));
        client::test::fill(large, kBlock, 1);
        EXPECT_EQ(client_->memory()->usage().in_use, kBlock);
        void* small = salus_alloc(library, client::kManagedMin - 1, SALUS_AUTO);
        EXPECT_FALSE(client_->owns(small));
        void* others = std::malloc(kBlock);  // allocated by this program, not by the library
        EXPECT_FALSE(client_->owns(others));

        salus_free(library, large);
        EXPECT_EQ(client_->memory()->usage().in_use, 0u);
        salus_free(library, small);
        salus_free(library, before);  // still the C library's
        std::free(others);
    }));
}

TEST_F(AllocatorTest, InAnIterationTheyAreAskedForAndMayBeDenied) {
    EXPECT_TRUE(succeeds_in_a_child([&] {
        attach();
        salus_client* library = library_that_allocates();
        ASSERT_TRUE(allocator_of("libsalus.so", *client_).ok());
        begin(/*room=*/kBlock);
        const auto service = elsewhere([&] {
            const std::uint64_t need = session_->hear<wire::Need>().number;
            EXPECT_TRUE(session_->say(wire::NeedAnswer{need, 0, 0}));
        });
        EXPECT_EQ(salus_alloc(library, 2 * kBlock, SALUS_AUTO), nullptr);
        end_turn();
    }));
}

TEST_F(AllocatorTest, OnceAloneWhatTheDeviceHasNoRoomForIsTheCLibrarys) {
    EXPECT_TRUE(succeeds_in_a_child([&] {
        attach();
        salus_client* library = library_that_allocates();
        ASSERT_TRUE(allocator_of("libsalus.so", *client_).ok());
        const std::size_t more_than_the_device = client_->window_size() + kBlock;
        EXPECT_EQ(salus_alloc(library, more_than_the_device, SALUS_AUTO), nullptr);
        client_->stop_sharing();
        session_->hear<wire::Leave>();
        ASSERT_TRUE(client::test::eventually([&] { return counters().shared == 0; }));
        void* block = salus_alloc(library, more_than_the_device, SALUS_AUTO);
        EXPECT_NE(block, nullptr);
        EXPECT_FALSE(client_->owns(block));
        salus_free(library, block);
    }));
}

TEST_F(AllocatorTest, OneClientServesOneLibrary) {
    EXPECT_TRUE(succeeds_in_a_child([&] {
        client::ProcessClient alone({service_.socket(), {}});
        EXPECT_EQ(allocator_of("libsalus.so", alone).error(), "the client is not attached");
        attach();
        EXPECT_EQ(allocator_of("libnowhere.so", *client_).error(), "no library libnowhere.so is loaded");
        EXPECT_FALSE(uses(*client_)) << "nothing has changed";
        ASSERT_TRUE(allocator_of("libsalus.so", *client_).ok());
        EXPECT_EQ(allocator_of("libsalus.so", *client_).error(), "a library is already interposed");
    }));
}

// Through the C interface, which is part of the redirected library itself; it works all the same.
TEST_F(AllocatorTest, AClientThatALibraryUsesCannotBeDetached) {
    EXPECT_TRUE(succeeds_in_a_child([&] {
        const Setting socket("SALUS_SOCKET", service_.socket());
        salus_client* client = nullptr;
        client::test::Session session =
            service_.admit([&] { EXPECT_EQ(salus_attach(nullptr, &client), SALUS_OK) << salus_error_text(); });
        ASSERT_EQ(salus_interpose(client, "libsalus.so"), SALUS_OK) << salus_error_text();
        EXPECT_EQ(salus_interpose(client, "libsalus.so"), SALUS_MISUSE);
        EXPECT_EQ(salus_detach(client), SALUS_MISUSE);
        EXPECT_STREQ(salus_error_text(), "a library allocates from this client");
        session.catch_up();
    }));
}

}  // namespace
}  // namespace salus::interpose
