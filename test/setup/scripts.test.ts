import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { AgentConfigSchema, type AgentConfig } from '../../agent/config.js'
import { GatewayConfigSchema, type GatewayConfig } from '../../gateway/config.js'
import { readConfig } from '../../shared/config.js'
import { run, shell } from '../support/host/setup-shell.js'

describe('the set-up scripts', () => {
  let dir = ''
  before(() => (dir = mkdtempSync('/tmp/btest-scripts-')))
  after(() => rmSync(dir, { recursive: true, force: true }))

  describe('when they check Node.js', () => {
    /** @returns a PATH without Node.js and npm, or with programs of these names that print `version` */
    function pathWithNode(version?: string): string {
      const bin = mkdtempSync(join(dir, 'bin-'))
      for (const source of ['/usr/sbin', '/usr/bin'])
        for (const name of readdirSync(source))
          if (!/^(node|nodejs|npm|npx|corepack)$/.test(name))
            (rmSync(join(bin, name), { force: true }), symlinkSync(join(source, name), join(bin, name)))
      if (version === undefined) return bin
      for (const name of ['node', 'npm']) {
        writeFileSync(join(bin, name), `#!/bin/sh\necho ${version}\n`)
        chmodSync(join(bin, name), 0o755)
      }
      return bin
    }

    for (const script of ['scripts/up', 'scripts/test', '.ci/run'])
      it(`stop and report the missing package: ${script}`, () => {
        const { code, output } = run(script, [], { PATH: pathWithNode() })
        expect(code).to.equal(1)
        expect(output).to.include('Node.js is not installed').and.include('20.19')
      })

    it('reject a version that is too old', () => {
      const { code, output } = run('scripts/up', [], { PATH: pathWithNode('18.19.0') })
      expect(code).to.equal(1)
      expect(output).to.include('Node.js 18.19.0 is too old')
    })

    for (const [version, enough] of [
      ['20.18.3', false],
      ['20.19.0', true],
      ['20.20.2', true],
      ['22.2.0', true],
      ['9.99.0', false],
      ['100.0.0', true],
    ] as const)
      it(`${enough ? 'accept' : 'reject'} version ${version}`, () =>
        expect(shell(`version_at_least ${version} "$minimum_node"`).code === 0).to.equal(enough))
  })

  describe('when they install packages', () => {
    const install = (withKvm: boolean, architecture: string): string =>
      shell(`require_root() { :; }; require_node() { :; }; take_setup_lock() { :; }; ensure_npm_packages() { :; }
        dpkg() { echo ${architecture}; }; ensure_debian_packages() { shift; echo "packages: $*"; }
        set_instance ''; log_dir=${dir}/log; with_kvm=${withKvm}; prepare`).output

    it('include packages for virtual machines on amd64 if --no-kvm is not given', () => {
      expect(install(true, 'amd64')).to.match(/^packages: .*\blxc\b.*\bqemu-system-x86\b.*\bswtpm\b/m)
      expect(install(false, 'amd64'))
        .to.match(/^packages: .*\blxc\b/m)
        .and.not.match(/qemu/)
      expect(install(true, 'arm64'))
        .to.match(/^packages: .*\blxc\b/m)
        .and.not.match(/qemu/)
    })
  })

  describe('refuse wrong arguments', () => {
    for (const [script, args, code] of [
      ['scripts/up', ['--nonsense'], 2],
      ['scripts/down', ['--prune'], 2],
      ['scripts/down', ['purge'], 2],
      ['scripts/up', ['--instance', '../etc'], 1],
      ['scripts/down', ['--instance', 'Upper', '--purge'], 1],
      ['scripts/down', ['--instance', 'averylongname', '--purge'], 1],
    ] as const)
      it(`${script} ${args.join(' ')}`, () => expect(run(script, [...args]).code).to.equal(code))
  })

  describe('if there are several instances', () => {
    interface Set {
      agent: AgentConfig
      gateway: GatewayConfig
    }
    function makeInstance(name: string, number: number): Set {
      const etc = join(dir, name)
      mkdirSync(etc)
      writeFileSync(join(etc, 'number'), `${number}\n`)
      const { code, output } = shell(`set_instance ${name}; etc_dir=${etc}; write_configs`)
      expect(code, output).to.equal(0)
      return {
        agent: readConfig(AgentConfigSchema, join(etc, 'agent.yaml')),
        gateway: readConfig(GatewayConfigSchema, join(etc, 'gateway.yaml')),
      }
    }

    it('give each instance its own directories, ports, networks and user IDs', () => {
      const all: Set[] = [
        {
          agent: readConfig(AgentConfigSchema, 'systemd/agent.example.yaml'),
          gateway: readConfig(GatewayConfigSchema, 'systemd/gateway.example.yaml'),
        },
        ...[1, 2, 9].map((number) => makeInstance(`i${number}`, number)),
      ]
      const single = all.flatMap(({ agent, gateway }) => [
        [agent.state_dir, agent.run_dir, agent.listen, agent.storage.pool, agent.storage.loop_file],
        [agent.network.bridge, agent.network.table, agent.network.interface_prefix],
        [agent.network.subnet, agent.network.subnet6],
        [gateway.state_dir, gateway.run_dir, gateway.listen, gateway.join_listen, gateway.redis.prefix],
        [gateway.tls_listen],
      ])
      expect(new Set(single.flat()).size).to.equal(single.flat().length)
      for (const ranges of [
        all.map(({ agent }) => [agent.network.nat_ports.start, agent.network.nat_ports.end] as const),
        all.map(({ agent: { lxc } }) => [lxc.idmap_base, lxc.idmap_base + lxc.idmap_slots * 65536 - 1] as const),
      ]) {
        const sorted = [...ranges].sort(([a], [b]) => a - b)
        sorted.forEach(([start, end], at) => {
          expect(end)
            .to.be.greaterThan(start)
            .and.lessThan(2 ** 32)
          expect(start).to.be.greaterThan(sorted[at - 1]?.[1] ?? 0)
        })
      }
    })

    it('let scripts/up reject a configuration that is invalid or does not name the bridge', () => {
      makeInstance('own', 5)
      const file = join(dir, 'own', 'agent.yaml')
      const whole = readFileSync(file, 'utf8')
      const read = (text: string): string => {
        writeFileSync(file, text)
        const { code, output } = shell(`set_instance own; etc_dir=${join(dir, 'own')}; read_configs values_for_up`)
        return `${code}: ${output}`
      }
      expect(read(whole)).to.equal('0: ')
      expect(read(whole.replace(/^ {2}bridge: .*$/m, ''))).to.match(/^1: .* does not set network\.bridge: /)
      expect(read(`${whole}\nelse: 1\n`)).to.match(/^1: .* else: must NOT have additional properties/)
    })

    it('let scripts/up, but not a purge, reject a guest network of another instance', () => {
      makeInstance('net', 6)
      const other = '/var/lib/berth-btestnet'
      mkdirSync(other, { recursive: true })
      const read = (by: string, record: string): string => {
        writeFileSync(join(other, '.agent-values'), `${record}\n`)
        const { code, output } = shell(`set_instance net; etc_dir=${join(dir, 'net')}; read_configs ${by}`)
        return `${code}: ${output}`
      }
      try {
        const subnet6 = 'network.subnet6\tfd62:6572:7468:6::/64'
        expect(read('values_for_up', 'network.subnet6\tfd62:6572:7468:66::/64')).to.equal('0: ')
        expect(read('values_for_up', subnet6)).to.match(/^1: .* network\.subnet6: .* belongs to another instance, in /)
        expect(read('values_for_up', 'network.subnet\t10.70.0.0/16')).to.match(/^1: .* network\.subnet: /)
        expect(read('values_for_down', subnet6)).to.equal('0: ')
      } finally {
        rmSync(other, { recursive: true })
      }
    })

    it('let only root and the program read the configuration, even if other users could read it before', () => {
      const etc = join(dir, 'tight')
      mkdirSync(etc)
      const files = ['agent.yaml', 'gateway.yaml', 'gateway.env']
      const modes = (): string[] => files.map((file) => (statSync(join(etc, file)).mode & 0o777).toString(8))
      shell(`set_instance ''; etc_dir=${etc}; write_configs; echo BERTH_REDIS_URL=x >${etc}/gateway.env`)
      expect(modes().slice(0, 2), 'new files').to.deep.equal(['600', '600'])
      for (const file of files) chmodSync(join(etc, file), 0o644)
      const { code, output } = shell(`set_instance ''; etc_dir=${etc}; berth_user=nogroup; protect_configs`)
      expect(code, output).to.equal(0)
      expect(modes()).to.deep.equal(['600', '640', '600'])
    })

    it('never change an existing configuration', () => {
      const etc = join(dir, 'kept')
      mkdirSync(etc)
      writeFileSync(join(etc, 'agent.yaml'), 'log_level: debug\n')
      shell(`set_instance ''; etc_dir=${etc}; write_configs`)
      expect(readConfig(AgentConfigSchema, join(etc, 'agent.yaml')).log_level).to.equal('debug')
      expect(readdirSync(etc)).to.have.members(['agent.yaml', 'gateway.yaml'])
    })
  })

  describe('that read an existing configuration', () => {
    const yaml = [
      '# network:',
      'state_dir: /a # why',
      "name: 'two words'",
      'network:',
      '  # bridge: no',
      '  bridge: "br1"',
      '  nat_ports:',
      '    start: 5',
      '  resolvers: [9.9.9.9, 1.1.1.1]',
      'images:',
      '  prefetch:',
      '    - debian-12',
      'storage:',
      '  pool: /p#1',
      "  device: ''",
      'last: x',
    ].join('\n')
    const linesOf = (text: string): { code: number | null; output: string } => {
      const file = join(dir, 'values.yaml')
      writeFileSync(file, text)
      return shell(`config_lines ${file}`)
    }

    for (const [key, value] of [
      ['state_dir', '/a'],
      ['name', 'two words'],
      ['network.bridge', 'br1'],
      ['storage.pool', '/p#1'],
      ['storage.device', ''],
      ['storage.bridge', undefined],
      ['bridge', undefined],
      ['network.start', undefined],
      ['last', 'x'],
    ] as const)
      it(`find ${value === undefined ? 'no value' : JSON.stringify(value)} for the key "${key}"`, () => {
        const values = new Map(
          linesOf(yaml)
            .output.split('\n')
            .map((line) => line.split('\t') as [string, string]),
        )
        expect(values.get(key)).to.equal(value)
      })

    for (const [what, line] of [
      ['a mapping in flow style', 'network: { bridge: a }'],
      ['a key in quotes', '"state_dir": /a'],
      ['a tab', 'state_dir:\t/a'],
      ['an escape sequence', 'state_dir: "\\x2fa"'],
      ['a doubled quotation mark', "state_dir: '/a''b'"],
      ['a comment sign in quotes', "state_dir: '/a #b'"],
      ['an anchor', 'state_dir: &a /a'],
      ['an alias', 'state_dir: *a'],
      ['a tag', 'state_dir: !!str /a'],
      ['a block scalar', 'state_dir: |\n  /a'],
      ['a value on the line after its key', 'state_dir:\n  /a'],
      ['a value over two lines', 'state_dir: /a\n  b'],
      ['a list within a list', 'resolvers: [[a]]'],
      ['a merge key', '<<: a'],
      ['several documents in one file', '---'],
      ['a document that is indented', ' state_dir: /a'],
    ] as const)
      it(`refuse YAML that the shell cannot read: ${what}`, () => {
        const { code, output } = linesOf(line)
        expect(output).to.include('the shell cannot read it')
        expect(code).to.equal(1)
      })

    for (const program of ['agent', 'gateway'])
      it(`find the same values in the example configuration as the ${program} does`, () => {
        const read = (reader: string): string[] => {
          const etc = `etc_dir=$PWD/systemd; config_of() { echo "$etc_dir/$1.example.yaml"; }`
          const { output } = shell(`set_instance ''; ${etc}; ${reader} ${program}`)
          return output.split('\n').filter((line) => /\t./.test(line))
        }
        const byProgram = read('values_by_program .')
        expect(read('values_by_shell').length).to.be.greaterThan(5)
        expect(byProgram).to.include.members(read('values_by_shell'))
      })
  })
})
