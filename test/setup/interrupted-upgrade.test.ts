import { expect } from 'chai'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { composeInstallScript } from '../../gateway/join/install-script.js'
import { scratchDirectory } from '../support/scratch.js'

/*
 * Interrupts the script that upgrades the agent, as a power cut does, and starts it again as the unit does at boot. The
 * packages are files of this test. Reports to the gateway, downloads, apt and dpkg are simulated.
 */

describe('an interrupted upgrade of the agent', () => {
  const { path, wipe } = scratchDirectory('btest-interrupted-upgrade')
  const packages = join(path, 'var/lib/berth/packages')
  const units = join(path, 'etc/systemd/system')
  after(wipe)
  beforeEach(() => {
    rmSync(join(path, 'var'), { recursive: true, force: true })
    rmSync(units, { recursive: true, force: true })
    for (const directory of [units, join(path, 'order')]) mkdirSync(directory, { recursive: true })
    writePackages(packages, '1')
    writePackages(join(path, 'served'), '2')
    for (const [name, text] of Object.entries({ address: 'gateway:1', token: 't', version: '2', authority: 'ca' }))
      writeFileSync(join(path, 'order', name), `${text}\n`)
    writeFileSync(join(path, 'installed'), '1')
    writeFileSync(join(path, 'reports'), '')
    writeFileSync(
      join(path, 'install.sh'),
      composeInstallScript('gateway/join/install')
        .replaceAll(/=\/(?=var\/lib\/berth|etc\/systemd)/g, `=${path}/`)
        .replace('\nmain "$@"\n', (end) => `\n${simulation}${end}`),
    )
  })

  function writePackages(directory: string, version: string): void {
    mkdirSync(directory, { recursive: true })
    const entries = ['berth-agent', 'berth-runtime'].map((name) => {
      const [file, content] = [`${name}_${version}_amd64.deb`, `${name} ${version}`]
      writeFileSync(join(directory, file), content)
      const digest = createHash('sha256').update(content).digest('hex')
      return `Package: ${name}\nArchitecture: amd64\nVersion: ${version}\nFilename: ./${file}\nSHA256: ${digest}\n`
    })
    writeFileSync(join(directory, 'InRelease'), 'signed')
    writeFileSync(join(directory, 'Packages'), entries.join('\n'))
  }

  /** Shell functions instead of a real host. A file `cut-VERSION` cuts the power while this version is installed. */
  const simulation = `
lock() { [ ! -e "${path}/ended-meanwhile" ] || rm -rf "${packages}/pending"; }
begin_work() { work=${path}/work; mkdir -p "$work"; touch "$work/trusted"; }
report() { echo "$*" >>${path}/reports; }
check_upgrade() { :; }
check_signature() { :; }
adopt_keyring() { :; }
sleep() { :; }
seq() { echo 1; }
systemctl() { :; }
sync() { :; }
dpkg() { if [ "$1" = --print-architecture ]; then echo amd64; else command dpkg "$@"; fi; }
fetch() { cp "${path}/served/$1" "\${2:-$work/$1}"; }
installed_version() { cat ${path}/installed; }
is_consistent() { [ ! -e ${path}/half ]; }
keyring=${path}/keyring
check_machine() { architecture=amd64; }
read_packages() { :; }
update_system_lists() { :; }
install_listed() {
  printf '%s' "$(field berth-agent Version)" >${path}/installed
  [ ! -e "${path}/cut-command" ] || { rm "${path}/cut-command"; kill -KILL $$; exit; }
}
join_gateway() { :; }
wait_until_online() { fail 'the gateway cannot reach the agent'; }
change_to() {
  if [ -e "${path}/cut-$1" ]; then rm "${path}/cut-$1"; kill -KILL $$; exit; fi
  printf '%s' "$(field berth-agent Version)" >${path}/installed
  if [ -e "${path}/cut-within-$1" ]; then mv "${path}/cut-within-$1" ${path}/half; kill -KILL $$; exit; fi
  rm -f ${path}/half
  [ ! -e "${path}/cut-after-$1" ] || { rm "${path}/cut-after-$1"; kill -KILL $$; exit; }
  wait_for_version "$1"
}
wait_for_version() { [ ! -e "${path}/broken-$1" ] || fail "the agent did not come online at the gateway with version $1"; }
`

  const run = (...args: string[]) => spawnSync('sh', [join(path, 'install.sh'), ...args], { encoding: 'utf8' })
  const upgrade = (action = '--upgrade') => run(action, join(path, 'order'))
  /** Installs VERSION with the command that adds a host. The command then fails, as no gateway reaches the agent. */
  const runCommand = (version: string) => {
    writePackages(join(path, 'served'), version)
    writeFileSync(join(path, 'served/berth.gpg'), 'key')
    return run('berth_jt_token')
  }
  /** Does what the unit berth-upgrade-resume does at boot. */
  const boot = () => {
    if (existsSync(join(packages, 'pending')))
      return spawnSync('sh', [join(packages, 'pending/install.sh'), '--resume'], { encoding: 'utf8' })
    return undefined
  }
  /** Boots, and then restores the directory `pending`, as if the power had failed immediately before its removal. */
  const bootAndLosePower = () => {
    cpSync(join(packages, 'pending'), join(path, 'note'), { recursive: true })
    boot()
    expect(isPending()).to.equal(false)
    renameSync(join(path, 'note'), join(packages, 'pending'))
  }
  const set = (name: string) => writeFileSync(join(path, name), '')
  const installed = () => readFileSync(join(path, 'installed'), 'utf8')
  const lastReport = () => readFileSync(join(path, 'reports'), 'utf8').trim().split('\n').at(-1)
  const versionIn = (directory: string) =>
    /^Version: (.*)$/m.exec(readFileSync(join(directory, 'Packages'), 'utf8'))![1]
  const isPending = () =>
    existsSync(join(packages, 'pending')) || existsSync(join(units, 'berth-upgrade-resume.service'))

  it('keeps its request in a directory that only root can read, until the upgrade ends', () => {
    set('cut-2')
    upgrade()
    expect(statSync(join(packages, 'pending')).mode & 0o777).to.equal(0o700)
    expect(readFileSync(join(units, 'berth-upgrade-resume.service'), 'utf8')).to.include(
      `ExecStart=/bin/sh ${packages}/pending/install.sh --resume\n`,
    )
    boot()
    expect(isPending()).to.equal(false)
    const { status, stderr } = upgrade()
    expect(status, stderr).to.equal(0)
    expect([installed(), isPending(), lastReport()]).to.deep.equal(['2', false, 'done'])
  })

  it('keeps the packages of the old version if the command is repeated after dpkg was killed', () => {
    set('cut-within-2')
    expect(upgrade().signal).to.equal('SIGKILL')
    const { status, stderr } = upgrade()
    expect(status, stderr).to.equal(0)
    expect([installed(), versionIn(join(packages, 'previous'))]).to.deep.equal(['2', '1'])
  })

  it('returns at boot to the old version if the new version is not completely installed', () => {
    set('cut-2')
    expect(upgrade().signal).to.equal('SIGKILL')
    const { status, stderr } = boot()!
    expect(status, stderr).to.equal(1)
    expect(lastReport()).to.equal('failed this machine was restarted during the upgrade; version 1 is installed again')
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['1', '1', false])
    expect(existsSync(join(packages, 'previous'))).to.equal(false)
  })

  it('returns at boot to the old version if the gateway does not reach the new agent', () => {
    set('cut-after-2')
    set('broken-2')
    upgrade()
    boot()
    expect(lastReport())
      .to.include('the agent did not come online at the gateway with version 2')
      .and.include('version 1 is installed again')
    expect([installed(), isPending()]).to.deep.equal(['1', false])
    rmSync(join(path, 'broken-2'))
  })

  it('ends successfully at boot if the new version is installed and the gateway reaches its agent', () => {
    set('cut-after-2')
    upgrade()
    expect(boot()?.status).to.equal(0)
    expect([installed(), isPending(), lastReport()]).to.deep.equal(['2', false, 'done'])
    expect(versionIn(join(packages, 'previous'))).to.equal('1')
  })

  it('returns to the old version even if the power fails again during the return', () => {
    set('cut-2')
    set('cut-1')
    upgrade()
    expect(boot()?.signal).to.equal('SIGKILL')
    expect(versionIn(join(packages, 'previous'))).to.equal('1')
    boot()
    expect([installed(), isPending()]).to.deep.equal(['1', false])
  })

  it('keeps the packages of the old version until the old version is installed again', () => {
    set('cut-2')
    set('broken-1')
    upgrade()
    boot()
    expect(lastReport()).to.include('version 1 could not be installed again')
    expect([versionIn(join(packages, 'previous')), isPending()]).to.deep.equal(['1', true])
    rmSync(join(path, 'broken-1'))
    boot()
    expect([lastReport(), isPending()]).to.deep.equal([
      'failed this machine was restarted during the upgrade; version 1 is installed again',
      false,
    ])
  })

  it('ends at the next boot if the power fails again just before the return to the old version is complete', () => {
    set('cut-2')
    upgrade()
    bootAndLosePower()
    boot()
    expect(lastReport()).to.equal('failed this machine was restarted during the upgrade; version 1 is installed again')
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['1', '1', false])
  })

  it('keeps the packages for a later rollback if the power fails again just before the return is complete', () => {
    upgrade()
    writeFileSync(join(path, 'order/version'), '1\n')
    set('cut-after-1')
    set('broken-1')
    upgrade('--rollback')
    bootAndLosePower()
    boot()
    rmSync(join(path, 'broken-1'))
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['2', '2', false])
    expect(versionIn(join(packages, 'previous'))).to.equal('1')
  })

  it('does nothing at boot if a second run of the command has already finished the upgrade', () => {
    set('cut-2')
    upgrade()
    const reports = readFileSync(join(path, 'reports'), 'utf8')
    set('ended-meanwhile')
    const { status, stderr } = boot()!
    rmSync(join(path, 'ended-meanwhile'))
    expect(status, stderr).to.equal(0)
    expect(readFileSync(join(path, 'reports'), 'utf8')).to.equal(reports)
  })

  it('fails at the next boot, and does not try again, if the packages of the old version are missing', () => {
    set('cut-2')
    upgrade()
    rmSync(join(packages, 'previous/InRelease'))
    boot()
    expect(lastReport()).to.include('the packages of version 1 are missing')
    expect(isPending()).to.equal(false)
  })

  it('returns at boot to the newer version if the interrupted command was a rollback', () => {
    upgrade()
    writeFileSync(join(path, 'order/version'), '1\n')
    set('cut-1')
    upgrade('--rollback')
    boot()
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['2', '2', false])
    expect(versionIn(join(packages, 'previous'))).to.equal('1')
    expect(upgrade('--rollback').status).to.equal(0)
    expect([installed(), versionIn(packages)]).to.deep.equal(['1', '1'])
  })

  it('succeeds if a rollback was killed while it replaced the packages, and is then repeated', () => {
    upgrade()
    writeFileSync(join(path, 'order/version'), '1\n')
    set('cut-1')
    expect(upgrade('--rollback').signal).to.equal('SIGKILL')
    expect(versionIn(join(packages, 'previous'))).to.equal('2')
    const { status, stderr } = upgrade('--rollback')
    expect(status, stderr).to.equal(0)
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['1', '1', false])
    expect(existsSync(join(packages, 'previous'))).to.equal(false)
  })

  it('succeeds if a rollback was killed just after it had replaced the packages, and is then repeated', () => {
    upgrade()
    writeFileSync(join(path, 'order/version'), '1\n')
    renameSync(join(packages, 'previous'), join(packages, 'next'))
    writePackages(join(packages, 'previous'), '2')
    const { status, stderr } = upgrade('--rollback')
    expect(status, stderr).to.equal(0)
    expect([installed(), versionIn(packages)]).to.deep.equal(['1', '1'])
  })

  it('is forgotten after another version was installed, even if the installation command then fails', () => {
    set('cut-after-2')
    upgrade()
    const { status, stderr } = runCommand('3')
    expect([status, stderr]).to.deep.equal([1, 'error: the gateway cannot reach the agent\n'])
    boot()
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['3', '3', false])
  })

  it('is forgotten at boot if the installation command installed another version and was then killed', () => {
    set('cut-after-2')
    upgrade()
    set('cut-command')
    expect(runCommand('3').signal).to.equal('SIGKILL')
    const { status, stderr } = boot()!
    expect(status, stderr).to.equal(0)
    expect([installed(), versionIn(packages), isPending()]).to.deep.equal(['3', '3', false])
  })

  it('keeps no packages for a further rollback if a killed rollback is repeated', () => {
    upgrade()
    writeFileSync(join(path, 'order/version'), '1\n')
    set('cut-after-1')
    expect(upgrade('--rollback').signal).to.equal('SIGKILL')
    expect(upgrade('--rollback').status).to.equal(0)
    expect([installed(), isPending(), existsSync(join(packages, 'previous'))]).to.deep.equal(['1', false, false])
  })
})
