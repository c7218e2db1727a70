-- A job that asks for a share of a GPU (--gres=shard) without saying how large gets what earlier runs of its script needed. One
-- shard is a MiB of persistent memory, P; the lane, for T, is set aside on every GPU and not counted.
--
-- salus_profiles.jsonl beside slurm.conf is what `salus profiles` prints. Without it, jobs get what they ask for.
local directory = (os.getenv("SLURM_CONF") or "/etc/slurm/slurm.conf"):match("(.*)/")
local ASKS_FOR_ANY = { ["gres:shard"] = true, ["gres/shard"] = true, ["shard"] = true }
local MIB = 1048576

-- In a line of JSON. A quotation mark inside a text has a backslash before it, so what follows one here is a key.
local function number_in(line, key) return tonumber(line:match('"' .. key .. '":(%d+)')) end

local function mib_of(bytes) return math.ceil(bytes / MIB) end

-- The words of a script, without the directories that they are in.
local function names_in(script)
    local names = {}
    for word in script:gmatch("[^%s'\";]+") do names[word:match("[^/]+$") or word] = true end
    return names
end

-- The most that the user's commands of these names have needed; if there are none, everybody's. And the lane, in MiB.
local function profile_of(script, uid)
    local file = io.open(directory .. "/salus_profiles.jsonl")
    if not file then return nil end
    local names, lane, own, all = names_in(script), nil, nil, nil
    local function largest(known, line)
        known = known or { p_mib = 0, t_mib = 0 }
        known.p_mib = math.max(known.p_mib, mib_of(number_in(line, "persistent") or 0))
        known.t_mib = math.max(known.t_mib, mib_of(number_in(line, "ephemeral") or 0))
        return known
    end
    for line in file:lines() do
        local lane_here = number_in(line, "lane")
        if lane_here then lane = math.min(lane or math.huge, mib_of(lane_here)) end
        if names[line:match('"name":"([^"]*)"')] then
            all = largest(all, line)
            if number_in(line, "user") == uid then own = largest(own, line) end
        end
    end
    file:close()
    return own or all, lane
end

function slurm_job_submit(job, partitions, uid)
    if not ASKS_FOR_ANY[job.tres_per_node or job.gres or ""] or not job.script then return slurm.SUCCESS end
    local known, lane_mib = profile_of(job.script, job.user_id or uid)
    if not known then return slurm.SUCCESS end
    if lane_mib and known.t_mib > lane_mib then
        slurm.log_user("salus: an iteration of this script needs %d MiB and a lane has %d; ask for a whole GPU (--gres=gpu:1)",
            known.t_mib, lane_mib)
        return slurm.ERROR
    end
    job.tres_per_node = "gres:shard:" .. known.p_mib
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end

return slurm.SUCCESS
