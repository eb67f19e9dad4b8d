import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { addLauncher, composeInstallScript } from '../../gateway/join/install-script.js'
import { scratchDirectory } from '../support/scratch.js'

describe('the installation script of a gateway', () => {
  const parts = 'gateway/join/install'
  const { path, wipe } = scratchDirectory('btest-install-launcher')
  after(wipe)

  it('hides the join token from its own command line, which other users can read', () => {
    const show = 'tr "\\0" " " </proc/$$/cmdline; echo; echo "$BERTH_JOIN_TOKEN"\n'
    const output = execFileSync('sh', ['-s', '--', 'berth_jt_secret'], { input: addLauncher(parts, show) })
    expect(output.toString().trim().split('\n')).to.deep.equal(['sh /dev/fd/8 ', 'berth_jt_secret'])
  })

  it('passes all other arguments on to the installation, and leaves no temporary file', () => {
    const directory = join(path, 'tmp')
    mkdirSync(directory)
    const input = addLauncher(parts, 'echo "$@"; ls "$TMPDIR"\n')
    const output = execFileSync('sh', ['-s', '--', '--uninstall'], {
      input,
      env: { ...process.env, TMPDIR: directory },
    })
    expect(output.toString()).to.equal('--uninstall\n')
  })

  it('reads the join token from the environment, and hides the join token from all commands that it runs', () => {
    const begin = 'install_agent() { echo "$token ${BERTH_JOIN_TOKEN:-unset}"; exit; }\nmain "$@"\n'
    const script = addLauncher(parts, composeInstallScript(parts).replace('\nmain "$@"\n', `\n${begin}`))
    const env = { ...process.env, BERTH_JOIN_TOKEN: 'berth_jt_secret' }
    for (const args of [['-s'], ['-s', '--', 'berth_jt_secret']])
      expect(execFileSync('sh', args, { input: script, env }).toString()).to.equal('berth_jt_secret unset\n')
  })

  it('does not contain the end line of its own here-document', () => {
    expect(composeInstallScript(parts)).not.to.include('END OF THE INSTALLATION SCRIPT')
  })
})
