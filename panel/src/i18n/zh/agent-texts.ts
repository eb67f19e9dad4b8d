/** Texts of agents that users read. Each `$1` stands for a value. The gateway shortens long warnings. */
const translations: readonly (readonly [pattern: RegExp, text: string])[] = [
  // Reasons for the status of a guest
  [/^shut down from inside$/, '实例已从内部关机。'],
  [/^blocked$/, '已被策略停止。'],
  [/^not running, restarting it$/, '实例未在运行，正在重新启动。'],
  [/^killed because memory ran out, restarting it$/, '实例因内存耗尽而被终止，正在重新启动。'],
  [/^the system of the guest panicked$/, '实例的系统已崩溃。'],
  [
    /^the container belongs to another host; this host keeps an old copy of its disk$/,
    '该实例属于另一台主机，此主机只保留其磁盘的旧副本。',
  ],
  // Warnings of a host
  [
    /^guest (\S+) \(\d+, [^)]*\) clashes with (\S+) \(\d+, [^)]*\) of host (\S+) and is not shown$/,
    '实例 $1 与主机 $3 上的实例 $2 冲突，因此不显示。',
  ],
  [/^this host has cgroup v1: /, '此主机使用 cgroup v1：实例内的服务没有各自的限制，磁盘写入限制也不完整。'],
  [
    /^the pool is not on a single disk: /,
    '存储池不在单个磁盘上，因此 io_read_mbps 和 io_write_mbps 对其实例不起作用。',
  ],
  [
    /^the disk of the storage pool \((\S+)\) has the I\/O scheduler (\S+), which does not share the disk fairly/,
    '存储池的磁盘（$1）使用 I/O 调度器 $2，不能公平分配磁盘，持续写入且没有限制的实例会拖慢其他实例。调度器 bfq 可以公平分配。',
  ],
  [
    /^restart these guests, because an earlier version of the agent started them without limits on [^:]*: (.*)$/,
    '请重启这些由旧版代理程序启动、缺少部分限制的实例：$1',
  ],
  [
    /^storage pool (\d+) % full, (\S+) of (\S+) GiB are free: new containers/,
    '存储池已使用 $1%，剩余 $2 GiB，共 $3 GiB。释放空间之前，无法创建实例和快照，也无法扩大磁盘。',
  ],
  [/^storage pool (\d+) % full, (\S+) of (\S+) GiB are free$/, '存储池已使用 $1%，剩余 $2 GiB，共 $3 GiB。'],
  [/^guest (\S+) has lost its interface (\S+): restart the guest$/, '实例 $1 失去了网络接口 $2，请重启该实例。'],
  [/^guest (\S+) is on the host but not in the journal$/, '主机上存在未登记的实例 $1。'],
  [
    /^nft table (\S+) (\S+), chain (\S+), drops forwarded packets .* the interface (\S+) in this chain/,
    'nft 表 $1 $2 的链 $3 会丢弃实例的数据包，请在该链中放行来自和发往接口 $4 的数据包。',
  ],
  [
    /^(ip6?tables)-legacy has tables \(([^)]*)\), which are not checked: /,
    '$1-legacy 中存在未检查的表（$2），请确认链 FORWARD 放行实例的数据包。',
  ],
  [/^the packet filters of other programs could not be read: (.*)$/, '无法读取其他程序的数据包过滤规则：$1'],
  [
    /^(\S+) is 1: a guest cannot reach its own mapped ports/,
    '$1 为 1：实例无法通过主机地址访问自己映射的端口，其他来源不受影响。',
  ],
  [/^public addresses are configured for (\S+), which does not exist$/, '公网地址配置在不存在的接口 $1 上。'],
  [
    /^public addresses cannot be used: the host has no IPv4 default route$/,
    '主机没有 IPv4 默认路由，无法使用公网地址。',
  ],
  [
    /^packets from the public addresses of (.+) leave the host through (.+): that router must accept these packets$/,
    '公网地址（$1）的数据包经由 $2 离开主机，该路由器必须放行这些数据包。',
  ],
  [/^port mappings use (\S+) \(host_ip\), which the host does not have$/, '端口映射使用了主机没有的地址 $1。'],
  [
    /^(\S+) is assigned to a container, but (\S+) on (\S+) also answers for it$/,
    '$1 已分配给实例，但 $3 上的 $2 也在应答该地址。',
  ],
  [/^IPv6 prefixes are configured for (\S+), which does not exist$/, 'IPv6 前缀配置在不存在的接口 $1 上。'],
  [/^new addresses are taken from the IPv6 prefix (\S+) of (\S+)$/, '新地址取自 $2 的 IPv6 前缀 $1。'],
  [
    /^addresses are still taken from the IPv6 prefix (\S+) of (\S+), but the default route of the host uses (\S+) now/,
    '地址仍取自 $2 的 IPv6 前缀 $1，但主机的默认路由现在使用 $3。如需更改，请设置前缀。',
  ],
]

/** Translates a warning of a host, or the reason for the status of a guest. Unknown texts stay as they are. */
export function agentText(text: string): string {
  for (const [pattern, translated] of translations) {
    const found = pattern.exec(text)
    if (found) return translated.replace(/\$(\d)/g, (_, at: string) => found[Number(at)] ?? '')
  }
  return text
}
