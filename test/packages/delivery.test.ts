import { expect } from 'chai'
import { machineApi } from '../support/host/machine-api.js'
import { SystemdMachine } from '../support/host/systemd-machine.js'
import { documented } from '../support/packages/documented.js'
import { changeToken } from '../support/packages/orders.js'
import { answerYes, Repository, serveHosts, testBridge } from '../support/packages/repository.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

/*
 * Tests the packages on machines without a checkout: one with gateway and agent, and one that joins with the command of
 * POST /hosts. Both machines already have Debian's packages, because they cannot download any.
 */

const network = testBridge('btestpk0')
const addresses = { gateway: '10.213.7.1', host: '10.213.7.2' }

interface HostRow {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly address: string
  readonly version: string
  readonly install: { readonly step: string; readonly message: string } | null
}

describe('packages', function () {
  this.bail(true) // each test continues where the one before ended
  this.timeout(3_600_000) // building takes minutes, and far longer on a busy machine

  const scratch = scratchDirectory('btest-packages')
  const repository = new Repository(scratch.path)
  let gateway: SystemdMachine
  let host: SystemdMachine
  let command = ''
  let added: HostRow

  const api = () => machineApi((...words) => gateway.run(...words))
  const shell = (machine: SystemdMachine, script: string) => machine.try('sh', '-c', script)
  const rowOf = (id: string): HostRow => api().ask<HostRow>(`/hosts/${id}`)

  before(async () => {
    network.create()
    repository.publish('0.9.1')
    const create = (name: string, address: string) =>
      SystemdMachine.create(name, { hasCheckout: false, network: { bridge: network.name, address: `${address}/24` } })
    gateway = await create('btest-pkg-gateway', addresses.gateway)
    host = await create('btest-pkg-host', addresses.host)
    await Promise.all([gateway.start(), host.start()])
  })
  after(() => {
    gateway?.destroy()
    host?.destroy()
    network.remove()
    scratch.wipe()
  })

  it('install a gateway and an agent on one machine without asking questions, and print the set-up link', async () => {
    repository.copyTo(gateway)
    answerYes(gateway)
    const output = gateway.run('sh', '-c', `set -e; exec 2>&1 </dev/null\n${repository.installation()}`)
    expect(output).to.match(/http:\/\/\S+\/setup#\S+/)
    await waitFor(() => api().tryAsk<HostRow[]>('/hosts')?.[0]?.status === 'online', { what: 'the machine online' })
    expect(gateway.run('systemctl', 'list-units', '--failed', '--plain', '--no-legend').trim()).to.equal('')
  })

  it('contain the configuration as conffiles, and no secrets', () => {
    const conffiles = gateway.run('dpkg-query', '-W', '-f', '${Conffiles}', 'berth-agent', 'berth-gateway')
    expect(conffiles.match(/\/etc\/\S+/g)).to.have.members(['/etc/berth/agent.yaml', '/etc/berth/gateway.yaml'])
    expect(gateway.run('stat', '-c', '%U:%G %a', '/etc/berth/gateway.yaml').trim()).to.equal('root:berth 640')
    expect(gateway.run('stat', '-c', '%U:%G %a', '/etc/berth/admin.key').trim()).to.equal('root:root 600')
  })

  it('install the command line on a machine without other parts of Berth, and remove it completely', () => {
    const files = (): string =>
      shell(host, 'find / -xdev -ipath "*berth*" -not -path "/proc/*" -not -path "/sys/*"').output
    const before = files()
    repository.addTo(host)
    answerYes(host)
    host.run('apt-get', 'install', 'berth-cli')
    expect(host.run('berth', '--version').trim()).to.equal('0.9.1')
    const { code, error } = shell(host, 'berth guest list')
    expect([code, error]).to.deep.equal([4, 'berth: not logged in\nlog in to a gateway: berth login URL\n'])
    expect(host.run('zcat', '/usr/share/man/man1/berth.1.gz')).to.match(/^\.TH BERTH 1/im)
    const complete = `. /usr/share/bash-completion/completions/berth; COMP_LINE='berth gu' COMP_POINT=8; _berth; echo $COMPREPLY`
    expect(host.run('bash', '-c', complete)).to.equal('guest\n')
    for (const file of ['zsh/vendor-completions/_berth', 'fish/vendor_completions.d/berth.fish'])
      expect(host.run('cat', `/usr/share/${file}`)).to.contain('berth complete --')
    host.run('apt-get', 'purge', 'berth-cli', 'berth-runtime')
    host.run('sh', '-c', 'rm -r /srv/repository /usr/share/keyrings/berth.gpg /etc/apt/sources.list.d/berth.sources')
    expect(files()).to.equal(before)
  })

  it('install the agent on another machine with the command from POST /hosts', async () => {
    serveHosts(gateway, addresses.gateway)
    await waitFor(() => api().tryAsk('/hosts'), { what: 'the gateway' })
    const answer = gateway.run('sh', '-c', documented('docs/hosts.md', 'http://127.0.0.1:8080/api/v1/hosts'))
    const { data } = JSON.parse(answer) as { data: { host: HostRow; command: string } }
    command = data.command
    added = data.host
    expect(added).to.include({ status: 'pending', address: '' })
    const { code, output, error } = shell(host, command)
    expect(code, output + error).to.equal(0)
    expect(rowOf(added.id)).to.include({ status: 'online', address: `${addresses.host}:7443` })
    expect(rowOf(added.id).install?.step).to.equal('waiting')
  })

  it('repair the installation of the agent if the installation command runs again', () => {
    shell(
      host,
      'systemctl stop berth-agent; rm /usr/lib/berth/agent/dist/agent/main.js; dpkg --force-all -r berth-runtime',
    )
    const { code, output, error } = shell(host, command)
    expect(code, output + error).to.equal(0)
    expect(rowOf(added.id).status).to.equal('online')
  })

  it('contain everything that a guest on the added host needs', async () => {
    const body = {
      name: 'guest',
      host_id: added.id,
      virtualization: 'lxc',
      template_id: 'debian-12',
      vcpu: 1,
      ram_mb: 128,
      disk_gb: 1,
    }
    const { task_id: task } = api().ask<{ task_id: string }>('/containers', { method: 'POST', body })
    await api().follow(task)
    expect(api().ask<{ status: string }>('/containers/guest').status).to.equal('running')
  })

  it('are not installed if the token is from another gateway or the pinned key is wrong', () => {
    const token = /berth_jt_\S+/.exec(command)![0]
    const [head, claims, tail] = token.split('.') as [string, string, string]
    const changed = JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown>
    const foreign = [
      head,
      Buffer.from(JSON.stringify({ ...changed, ca: '0'.repeat(64) })).toString('base64url'),
      tail,
    ].join('.')
    const refused = shell(host, command.replace(token, foreign))
    expect(refused.code).to.equal(1)
    expect(refused.error).to.include('is not the gateway that created this token')
    const unpinned = shell(host, command.replace(/sha256\/\/[^']*/, `sha256//${'A'.repeat(43)}=`))
    expect(unpinned.error).to.include('public key')
  })

  it('are not installed if the token has expired', () => {
    const token = /berth_jt_\S+/.exec(command)![0]
    const expired = changeToken(gateway, token, { exp: Math.floor(Date.now() / 1000) - 10 })
    const refused = shell(host, command.replace(token, expired))
    expect(refused.code, refused.output).to.equal(1)
    expect(refused.error).to.include('refuses the token: the join token has expired: create a new one')
  })

  it('are not installed if one of the packages was modified', () => {
    const { output } = shell(gateway, 'ls /usr/share/berth/packages/berth-agent_*.deb')
    const file = output.trim()
    gateway.run('sh', '-c', `cp ${file} /root/good.deb; printf x | dd of=${file} bs=1 seek=5000 conv=notrunc`)
    const { command: again } = api().ask<{ command: string }>(`/hosts/${added.id}/join-token`, {
      method: 'POST',
      body: {},
    })
    host.run('sh', '-c', 'rm /var/lib/berth/packages/berth-agent_*.deb')
    const refused = shell(host, again)
    expect(refused.code, refused.output).to.equal(1)
    expect(refused.error).to.match(/error: .*failed/)
    expect(rowOf(added.id).install).to.include({ step: 'failed' })
    gateway.run('sh', '-c', `cp /root/good.deb ${file}`)
  })

  it('install services that run without crashing', () => {
    for (const [machine, unit] of [
      [gateway, 'berth-gateway'],
      [gateway, 'berth-agent'],
      [host, 'berth-agent'],
    ] as const)
      expect(machine.run('systemctl', 'show', '-P', 'NRestarts', unit).trim(), unit).to.equal('0')
  })

  it('store the compiled code of the gateway for its next start', async () => {
    const isStored = (): boolean =>
      gateway.run('find', '/var/cache/berth/gateway', '-type', 'f', '-user', 'berth', '-size', '+500k') !== ''
    await waitFor(isStored, { what: 'the compiled code' })
  })

  it('are removed with all guests by the installation command with --uninstall', () => {
    const { code, output, error } = shell(host, command.replace(/berth_jt_\S+/, '--uninstall'))
    expect(code, output + error).to.equal(0)
    const left = shell(
      host,
      'find / -xdev -ipath "*berth*" -not -path "/proc/*" -not -path "/sys/*" | head; ip -br link | grep berth; nft list tables | grep berth',
    )
    expect(left.output.trim()).to.equal('')
  })

  it('do not let a machine join if its token was already used', () => {
    const refused = shell(host, command)
    expect(refused.code, refused.output).to.equal(1)
    const reason = 'the join token was already used or replaced by a newer one: create a new one'
    expect(refused.error).to.include('the agent could not join').and.to.include(reason)
    expect(rowOf(added.id).install).to.include({ step: 'failed' })
    expect(rowOf(added.id).install?.message).to.include(reason)
  })
})
