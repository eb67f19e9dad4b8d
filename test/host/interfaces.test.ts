import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'
import { readFlags, readInterfaces } from '../../agent/host/net/interfaces.js'
import { Ip } from '../../agent/host/net/ip.js'
import { keepSysctls } from '../../agent/host/kernel/sysctl-change.js'
import { runEach } from '../../agent/network/addresses/run-each.js'
import { ensureSysctl } from '../../agent/network/bridge/ensure.js'

describe('a network interface', () => {
  const pairs = Array.from({ length: 50 }, (_, id) => [`btestia${id}`, `btestib${id}`] as const)
  const names = pairs.flat()
  const batch = (lines: readonly string[]): void => {
    execFileSync('ip', ['-force', '-batch', '-'], { input: lines.join('\n'), stdio: 'pipe' })
  }
  const left = (): string[] => names.filter((name) => readInterfaces().has(name))
  const removeAll = (): void => {
    for (const name of left()) if (readInterfaces().has(name)) execFileSync('ip', ['link', 'delete', name])
  }

  beforeEach(removeAll)
  afterEach(removeAll)

  it('is reported as absent during its deletion, and never causes an error', async () => {
    batch(pairs.map(([one, other]) => `link add ${one} type veth peer name ${other}`))
    expect(left()).to.have.length(100)
    const deletion = spawn('ip', ['-batch', '-'])
    const ended = once(deletion, 'close')
    deletion.stdin.end(pairs.map(([one]) => `link delete ${one}`).join('\n'))
    let running = true
    void ended.then(() => (running = false))
    while (running) {
      for (const name of names) readFlags(name)
      await new Promise(setImmediate)
    }
    expect(names.map(readFlags).filter(Boolean)).to.deep.equal([])
  })

  describe('that is being deleted', () => {
    const [device, peer] = ['btestic0', 'btestid0']
    const remove = (): void => {
      if (readInterfaces().has(device)) execFileSync('ip', ['link', 'delete', device])
    }
    beforeEach(() => batch([`link add ${device} type veth peer name ${peer}`]))
    afterEach(remove)

    it('is skipped by an optional kernel setting, and causes an error only for a required setting', async () => {
      keepSysctls({ note: async () => remove(), putBack: () => Promise.resolve([]) })
      const setting = { path: `net/ipv4/conf/${device}/log_martians`, value: 1 }
      try {
        expect(await ensureSysctl({ ...setting, optional: true })).to.deep.equal([])
        batch([`link add ${device} type veth peer name ${peer}`])
        const failure = await ensureSysctl(setting).then(
          () => undefined,
          (error: NodeJS.ErrnoException) => error.code,
        )
        expect(failure, 'a setting that must exist').to.equal('ENOENT')
      } finally {
        keepSysctls({ note: () => Promise.resolve(), putBack: () => Promise.resolve([]) })
      }
    })

    it('is skipped when addresses, routes and neighbours of several interfaces are set', async () => {
      const ip = new Ip()
      try {
        const lines = (on: string): string[] => [
          `address replace 198.18.77.1/32 dev ${on}`,
          `neighbour replace 198.18.77.2 lladdr 02:00:00:00:00:01 dev ${on} nud permanent`,
          `route delete 198.18.77.3/32 dev ${on}`,
        ]
        await runEach(ip, [...lines('btestgone0'), ...lines(device)])
        const shown = (await ip.findInterface(device)) as { addr_info: { local: string }[] }
        expect(shown.addr_info.map(({ local }) => local)).to.include('198.18.77.1')
        const bad = `address replace 198.18.77.300/32 dev ${device}`
        const failure = await runEach(ip, [bad]).catch((error: unknown) => String(error))
        expect(failure).to.match(/ip/)
      } finally {
        await ip.close()
      }
    })
  })
})
