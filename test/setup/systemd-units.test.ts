import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'

const daemons = ['berth-agent', 'berth-gateway'] as const
const units = [...daemons, 'berth-guests'] as const

/** All settings `Key=value` of a unit, with the values of each key in their order. */
function parseUnit(text: string): Map<string, string[]> {
  const settings = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [, key, value] = /^([A-Z]\w+)=(.*)$/.exec(line) ?? []
    if (key !== undefined && value !== undefined) settings.set(key, [...(settings.get(key) ?? []), value])
  }
  return settings
}

describe('systemd units', () => {
  let dir = ''
  before(() => {
    dir = mkdtempSync('/tmp/btest-units-')
    for (const unit of units)
      writeFileSync(
        join(dir, `${unit}.service`),
        // As scripts/up does, the test replaces the path of Node.js with that of this host.
        readFileSync(`systemd/${unit}.service`, 'utf8').replace('/usr/bin/node', process.execPath),
      )
  })
  after(() => rmSync(dir, { recursive: true, force: true }))

  for (const unit of units) {
    it(`pass systemd-analyze verify: ${unit}`, () => {
      const result = spawnSync('systemd-analyze', ['verify', join(dir, `${unit}.service`)], {
        encoding: 'utf8',
      })
      expect(result.stdout + result.stderr).to.equal('')
      expect(result.status).to.equal(0)
    })
  }

  for (const unit of daemons)
    it(`start at boot and again after each crash: ${unit}`, () => {
      const settings = parseUnit(readFileSync(`systemd/${unit}.service`, 'utf8'))
      expect(settings.get('Restart')).to.deep.equal(['always'])
      expect(settings.get('StartLimitIntervalSec')).to.deep.equal(['0'])
      expect(settings.get('RestartPreventExitStatus')).to.deep.equal(['2'])
      expect(settings.get('WantedBy')).to.deep.equal(['multi-user.target'])
    })

  it('stop guests only in a shutdown, after the agent but before services that guests need', () => {
    const settings = parseUnit(readFileSync('systemd/berth-guests.service', 'utf8'))
    expect(settings.get('Before')).to.deep.equal(['berth-agent.service'])
    const before = settings.get('After')?.join(' ').split(' ')
    expect(before).to.include.members(['network.target', 'lxcfs.service', 'local-fs.target', 'swap.target'])
    expect(settings.get('RequiresMountsFor')).to.deep.equal(['/var/lib/berth/agent /var/lib/berth/pool'])
    expect(before, 'does not wait for units that need a link').not.to.include('network-online.target')
    const agent = parseUnit(readFileSync('systemd/berth-agent.service', 'utf8'))
    expect(agent.get('Wants'), 'started with each start of the agent').to.include('berth-guests.service')
    expect(settings.get('ExecStop')?.join()).to.include(' stop-guests --with-machine ')
    expect(settings.get('WantedBy')).to.deep.equal(['multi-user.target'])
    // Guests have up to 10 minutes to shut down (agent.yaml). The agent then kills the remaining guests within 90 s.
    expect(settings.get('TimeoutStopSec')).to.deep.equal(['15min'])
    for (const pulls of ['Requires', 'BindsTo', 'PartOf']) expect(settings.has(pulls), pulls).to.equal(false)
  })

  it('keep guests running when the agent stops', () => {
    const settings = parseUnit(readFileSync('systemd/berth-agent.service', 'utf8'))
    expect(settings.get('KillMode')).to.deep.equal(['process'])
    expect(settings.get('Delegate')).to.deep.equal(['yes'])
    expect(settings.get('TasksMax')).to.deep.equal(['infinity'])
  })

  it('give the agent no restrictions that guests would inherit, and no mount namespace of its own', () => {
    const settings = parseUnit(readFileSync('systemd/berth-agent.service', 'utf8'))
    const harmful = [...settings.keys()].filter((key) =>
      /^(NoNewPrivileges|SystemCall|Restrict|LockPersonality|Protect|Private(?!Net)|ReadWrite|ReadOnly|OOMScore|Memory)/.test(
        key,
      ),
    )
    expect(harmful).to.deep.equal([])
  })

  it('give the gateway an unprivileged user, and an exposure level of at most 1.5, not counting NotifyAccess=all', () => {
    const settings = parseUnit(readFileSync('systemd/berth-gateway.service', 'utf8'))
    expect(settings.get('User')).to.deep.equal(['berth'])
    // A child process passes the sockets to systemd. This requires `all`, which adds 0.2 to the exposure level.
    expect(settings.get('NotifyAccess')).to.deep.equal(['all'])
    const unit = join(dir, 'without-store/berth-gateway.service')
    mkdirSync(join(dir, 'without-store'))
    writeFileSync(unit, readFileSync(join(dir, 'berth-gateway.service'), 'utf8').replace('NotifyAccess=all', ''))
    const verdict = execFileSync('systemd-analyze', ['security', '--offline=true', unit], { encoding: 'utf8' })
    const exposure = /exposure level for \S+: ([\d.]+)/.exec(verdict)?.[1]
    expect(Number(exposure)).to.be.at.most(1.5)
  })

  it('have the exposure levels that docs/operations.md states', () => {
    const rows = [...readFileSync('docs/operations.md', 'utf8').matchAll(/^\| `(berth-[a-z]+)` +\| ([\d.]+) +\|/gm)]
    const measured = rows.map(([, unit = '']) => {
      const file = join(dir, `${unit}.service`)
      // The unit berth-upgrade has no file. The agent starts it with systemd-run, without settings that restrict it.
      if (unit === 'berth-upgrade') writeFileSync(file, '[Service]\nExecStart=/bin/true\n')
      const verdict = execFileSync('systemd-analyze', ['security', '--offline=true', file], { encoding: 'utf8' })
      return [unit, /exposure level for \S+: ([\d.]+)/.exec(verdict)?.[1]]
    })
    expect(measured).to.have.length(4)
    expect(measured).to.deep.equal(rows.map(([, unit, level]) => [unit, level]))
  })
})
