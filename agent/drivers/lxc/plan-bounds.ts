import type { NamespaceBounds } from '../../host/guest/guest-namespace.js'

/**
 * Maximum number and depth of cgroups that a guest can create. The limits are needed because a cgroup's kernel memory
 * counts towards no limit. systemd creates one cgroup per service and session.
 */
export const subgroups = { most: 512, depth: 64 } as const

const [pendingSignals, messageQueueBytes] = [11, 12]

/**
 * Limits for kernel objects that the guest's memory limit does not count or that all guests share. Each limit is
 * several times the highest use that was seen on a busy server with rootless containers.
 */
export const namespaceBounds: NamespaceBounds = {
  counts: {
    // A network namespace takes 240 KB of the host's memory, of which only 90 KB count towards the guest's limit. Each
    // namespace can track as many connections as the host itself. Debian's services use one or two namespaces
    // (PrivateNetwork=), and each nested container uses one.
    max_net_namespaces: 16,
    max_user_namespaces: 256,
    max_pid_namespaces: 128,
    max_ipc_namespaces: 128,
    max_uts_namespaces: 256,
    max_cgroup_namespaces: 128,
    max_time_namespaces: 64,
    // Number of mount namespaces. systemd gives most services a mount namespace of their own.
    max_mnt_namespaces: 512,
    max_inotify_instances: 4096,
    max_inotify_watches: 524_288,
    max_fanotify_groups: 64,
    max_fanotify_marks: 65_536,
  },
  resources: { [pendingSignals]: 65_536, [messageQueueBytes]: 16 * 1024 * 1024 },
}
