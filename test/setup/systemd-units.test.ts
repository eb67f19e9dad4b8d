import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'

const units = ['berth-agent', 'berth-gateway'] as const

/** Every `Key=value` of a unit, in order; a key may occur more than once. */
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
        // As scripts/up installs them: with this machine's node.
        readFileSync(`systemd/${unit}.service`, 'utf8').replace('/usr/bin/node', process.execPath),
      )
  })
  after(() => rmSync(dir, { recursive: true, force: true }))

  for (const unit of units) {
    const settings = parseUnit(readFileSync(`systemd/${unit}.service`, 'utf8'))

    it(`${unit}: systemd-analyze verify finds nothing`, () => {
      const result = spawnSync('systemd-analyze', ['verify', join(dir, `${unit}.service`)], {
        encoding: 'utf8',
      })
      expect(result.stdout + result.stderr).to.equal('')
      expect(result.status).to.equal(0)
    })

    it(`${unit}: comes back after a crash and at boot`, () => {
      expect(settings.get('Restart')).to.deep.equal(['always'])
      expect(settings.get('StartLimitIntervalSec')).to.deep.equal(['0'])
      expect(settings.get('RestartPreventExitStatus')).to.deep.equal(['2'])
      expect(settings.get('WantedBy')).to.deep.equal(['multi-user.target'])
    })
  }

  it('the agent: stopping it stops no guest', () => {
    const settings = parseUnit(readFileSync('systemd/berth-agent.service', 'utf8'))
    expect(settings.get('KillMode')).to.deep.equal(['process'])
    expect(settings.get('Delegate')).to.deep.equal(['yes'])
    expect(settings.get('TasksMax')).to.deep.equal(['infinity'])
  })

  it('the agent: nothing that guests would inherit, and no mount namespace', () => {
    const settings = parseUnit(readFileSync('systemd/berth-agent.service', 'utf8'))
    const harmful = [...settings.keys()].filter((key) =>
      /^(NoNewPrivileges|SystemCall|Restrict|LockPersonality|Protect|Private(?!Net)|ReadWrite|ReadOnly|OOMScore|Memory)/.test(
        key,
      ),
    )
    expect(harmful).to.deep.equal([])
  })

  it('the gateway: unprivileged, exposure at most 1.5 of 10', () => {
    const settings = parseUnit(readFileSync('systemd/berth-gateway.service', 'utf8'))
    expect(settings.get('User')).to.deep.equal(['berth'])
    const verdict = execFileSync(
      'systemd-analyze',
      ['security', '--offline=true', join(dir, 'berth-gateway.service')],
      { encoding: 'utf8' },
    )
    const exposure = /exposure level for \S+: ([\d.]+)/.exec(verdict)?.[1]
    expect(Number(exposure)).to.be.at.most(1.5)
  })
})
