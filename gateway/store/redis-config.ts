export interface RedisPaths {
  /** Directory for data, configuration, pid file and lock. */
  readonly directory: string
  readonly socket: string
  readonly config: string
  readonly pidFile: string
  readonly lock: string
}

export function redisPaths(stateDir: string, runDir: string): RedisPaths {
  const directory = `${stateDir}/redis`
  return {
    directory,
    socket: `${runDir}/redis.sock`,
    config: `${directory}/redis.conf`,
    pidFile: `${directory}/redis.pid`,
    lock: `${directory}/lock`,
  }
}

/** Maximum length of the path of a Unix socket: sun_path holds 107 bytes and a NUL (unix(7)). */
const maxSocketPathBytes = 107

/**
 * Creates the configuration of the private server. Acknowledged writes are on disk, and nothing is evicted. Only this
 * system user can connect. Clients cannot wipe, reconfigure or script the server.
 * @param extra additional lines, for tests
 * @throws {RangeError} if the path of the socket is too long Source: redis.conf of 7.0
 */
export function planRedisConfig(paths: RedisPaths, extra: readonly string[] = []): string {
  if (Buffer.byteLength(paths.socket) > maxSocketPathBytes)
    throw new RangeError(
      `run_dir: choose a shorter path, because the path of the Redis socket is too long: ${paths.socket}`,
    )
  return [
    'port 0',
    `unixsocket ${quote(paths.socket)}`,
    'unixsocketperm 700',
    `dir ${quote(paths.directory)}`,
    `pidfile ${quote(paths.pidFile)}`,
    'daemonize no',
    'logfile ""',
    'loglevel notice',
    'always-show-logo no',
    'databases 1',
    'maxclients 256',
    'tcp-keepalive 60',
    'save ""',
    'appendonly yes',
    'appendfsync always',
    'no-appendfsync-on-rewrite no',
    // Redis must not cut off an incomplete end of a file. The gateway cuts it off after storing a copy (aof-repair.ts).
    'aof-load-truncated no',
    'aof-use-rdb-preamble yes',
    'auto-aof-rewrite-percentage 100',
    'auto-aof-rewrite-min-size 16mb',
    'maxmemory-policy noeviction',
    'enable-debug-command no',
    'enable-module-command no',
    // Clients could read the slow log, which would contain the data of other clients' commands.
    'slowlog-max-len 0',
    'user default on nopass ~* &* +@all -@admin -@dangerous -@scripting +info',
    ...extra,
    '',
  ].join('\n')
}

function quote(path: string): string {
  return `"${path.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
