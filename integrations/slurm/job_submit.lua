-- A job that asks for a share of a GPU (--gres=shard) without saying how large gets what earlier runs of its script needed. One
-- shard is a MiB of persistent memory, P; the lane, for T, is set aside on every GPU and not counted.
--
-- salus_profiles.lua beside slurm.conf is what `salus slurm profiles` prints. Without it, jobs get what they ask for.
local directory = (os.getenv("SLURM_CONF") or "/etc/slurm/slurm.conf"):match("(.*)/")
local ASKS_FOR_ANY = { ["gres:shard"] = true, ["gres/shard"] = true, ["shard"] = true }

local function profile_of(script)
    local ok, profiles = pcall(dofile, directory .. "/salus_profiles.lua")
    if not ok or type(profiles) ~= "table" or not script then return nil end
    for word in script:gmatch("[^%s'\";]+") do
        local known = profiles.programs[word:match("[^/]+$") or word]
        if known then return known, profiles.lane_mib end
    end
end

function slurm_job_submit(job, partitions, uid)
    if not ASKS_FOR_ANY[job.tres_per_node or job.gres or ""] then return slurm.SUCCESS end
    local known, lane_mib = profile_of(job.script)
    if not known then return slurm.SUCCESS end
    if known.t_mib > lane_mib then
        slurm.log_user("salus: an iteration of this script needs %d MiB and a lane has %d; ask for a whole GPU (--gres=gpu:1)",
            known.t_mib, lane_mib)
        return slurm.ERROR
    end
    job.tres_per_node = "gres:shard:" .. known.p_mib
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end

return slurm.SUCCESS
