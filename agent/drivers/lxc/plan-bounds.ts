import type { NamespaceBounds } from '../../host/guest-namespace.js'

/** Groups a guest may make: systemd takes one a service and session. Each costs the kernel memory nobody is charged. */
export const subgroups = { most: 512, depth: 64 } as const

const [pendingSignals, messageQueueBytes] = [11, 12]

/**
 * What a guest may have of kernel objects that its memory limit does not count or that all guests of the host share.
 * Several times what a busy server with rootless containers was seen to have.
 */
export const namespaceBounds: NamespaceBounds = {
  counts: {
    // 240 KB of the host each, of which 90 are charged, and as many tracked connections each as the host's table has
    // room for. Debian's services take one or two (PrivateNetwork=), each container inside one.
    max_net_namespaces: 16,
    max_user_namespaces: 256,
    max_pid_namespaces: 128,
    max_ipc_namespaces: 128,
    max_uts_namespaces: 256,
    max_cgroup_namespaces: 128,
    max_time_namespaces: 64,
    // systemd gives most services one of their own.
    max_mnt_namespaces: 512,
    max_inotify_instances: 4096,
    max_inotify_watches: 524_288,
    max_fanotify_groups: 64,
    max_fanotify_marks: 65_536,
  },
  resources: { [pendingSignals]: 65_536, [messageQueueBytes]: 16 * 1024 * 1024 },
}
