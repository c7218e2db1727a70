#include "interpose/slots.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace salus::interpose {
namespace {

#if defined(__x86_64__)
constexpr bool is_slot(std::uint64_t type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#elif defined(__aarch64__)
constexpr bool is_slot(std::uint64_t type) { return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT; }
#else
constexpr bool is_slot(std::uint64_t) { return false; }
#endif

/// The dynamic section of a loaded library.
class Library {
public:
    explicit Library(const dl_phdr_info& info) : base_(info.dlpi_addr) {
        for (int i = 0; i < info.dlpi_phnum; ++i) {
            const auto& header = info.dlpi_phdr[i];
            if (header.p_type == PT_DYNAMIC) read(reinterpret_cast<const ElfW(Dyn)*>(base_ + header.p_vaddr));
            if (header.p_type == PT_GNU_RELRO) {
                read_only_ = base_ + header.p_vaddr;
                read_only_end_ = read_only_ + header.p_memsz;
            }
        }
    }

    bool contains(void* address) const {
        Dl_info info{};
        return ::dladdr(address, &info) != 0 && reinterpret_cast<std::uint64_t>(info.dli_fbase) == base_;
    }

    /// The slots of most libraries become read-only after loading.
    bool is_read_only(void** slot) const {
        const auto at = reinterpret_cast<std::uintptr_t>(slot);
        return at >= read_only_ && at < read_only_end_;
    }

    /// Every slot through which it calls this function.
    std::vector<void**> slots_of(const char* function) const {
        std::vector<void**> found;
        for (const Table& table : tables_) {
            for (const ElfW(Rela)* r = table.begin; r < table.end; ++r) {
                if (!is_slot(ELF64_R_TYPE(r->r_info))) continue;
                const char* name = names_ + symbols_[ELF64_R_SYM(r->r_info)].st_name;
                if (std::strcmp(name, function) == 0) found.push_back(reinterpret_cast<void**>(base_ + r->r_offset));
            }
        }
        return found;
    }

private:
    struct Table {
        const ElfW(Rela) * begin;
        const ElfW(Rela) * end;
    };

    void read(const ElfW(Dyn) * entry) {
        std::uint64_t calls = 0, calls_size = 0, data = 0, data_size = 0;
        for (; entry->d_tag != DT_NULL; ++entry) {
            const std::uint64_t value = entry->d_un.d_val;
            switch (entry->d_tag) {
                case DT_SYMTAB: symbols_ = reinterpret_cast<const ElfW(Sym)*>(value); break;
                case DT_STRTAB: names_ = reinterpret_cast<const char*>(value); break;
                case DT_JMPREL: calls = value; break;
                case DT_PLTRELSZ: calls_size = value; break;
                case DT_RELA: data = value; break;
                case DT_RELASZ: data_size = value; break;
                default: break;
            }
        }
        const auto add = [&](std::uint64_t at, std::uint64_t size) {
            if (at != 0 && symbols_ && names_)
                tables_.push_back({reinterpret_cast<const ElfW(Rela)*>(at), reinterpret_cast<const ElfW(Rela)*>(at + size)});
        };
        add(calls, calls_size);
        add(data, data_size);
    }

    std::uint64_t base_;
    std::uint64_t read_only_ = 0;
    std::uint64_t read_only_end_ = 0;
    const ElfW(Sym) * symbols_ = nullptr;
    const char* names_ = nullptr;
    std::vector<Table> tables_;
};

struct Search {
    std::string_view name;
    std::vector<Library> found;
};

int look(dl_phdr_info* info, std::size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    const std::string_view path = info->dlpi_name;
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (!file.starts_with(search.name)) return 0;
    search.found.emplace_back(*info);
    return 1;
}

/// Atomic, because threads may be calling through the slot at this moment.
bool set_slot(const Library& library, void** slot, void* function) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    void* start = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page - 1));
    if (::mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
    std::atomic_ref(*slot).store(function, std::memory_order_release);
    if (library.is_read_only(slot)) ::mprotect(start, page, PROT_READ);
    return true;
}

}  // namespace

Result<bool> redirect(std::string_view library, const std::vector<Redirection>& redirections) {
    Search search{library, {}};
    ::dl_iterate_phdr(look, &search);
    if (search.found.empty()) return Error{"no library " + std::string(library) + " is loaded"};
    const Library& found = search.found.front();
    std::vector<std::vector<void**>> slots;
    for (const Redirection& redirection : redirections) {
        slots.push_back(found.slots_of(redirection.function));
        if (slots.back().empty()) return Error{std::string(library) + " does not call " + redirection.function};
    }
    for (std::size_t i = 0; i < redirections.size(); ++i) {
        void* before = *slots[i].front();
        // Not called yet: the slot leads to the linker, which would resolve it at the first call and overwrite our entry.
        if (found.contains(before)) before = ::dlsym(RTLD_DEFAULT, redirections[i].function);
        *redirections[i].before = before;
        for (void** slot : slots[i]) {
            if (!set_slot(found, slot, redirections[i].to)) return Error{std::string("mprotect: ") + std::strerror(errno)};
        }
    }
    return true;
}

}  // namespace salus::interpose
