import { expect } from 'chai'
import { checkRemoteCommand } from './remote-command.js'

describe('the program of `berth run`', () => {
  for (const [words, suggestion] of [
    ['run web1 ls -la', 'run web1 -- ls -la'],
    ['run web1 grep -q root /etc/passwd', 'run web1 -- grep -q root /etc/passwd'],
    ['run web1 git log -- file', 'run web1 -- git log -- file'],
    ['--context lab run web1 ps -o pid', '--context lab run web1 -- ps -o pid'],
    ['--context run run web1 ls -a', '--context run run web1 -- ls -a'],
    ['run --context lab web1 ls -a', 'run --context lab web1 -- ls -a'],
    ["run web1 sh -c $'a'", `run web1 -- sh -c '$'\\''a'\\'''`],
  ] as const)
    it(`must follow -- if it has flags: ${words}`, () =>
      expect(() => checkRemoteCommand(words.split(' '), 'run'))
        .to.throw('the flags of the program must follow --')
        .with.property('hint')
        .that.contains(`write: berth ${suggestion}\n`))

  for (const words of [
    'run web1',
    'run web1 uptime',
    'run web1 cat -',
    '--context run run web1 -- ls -la',
    '--context run --jq run run web1 uptime',
    'run web1 -- ls -la',
    'run web1 --context lab -- ls -la',
    'run --unknown web1',
    'run -o json web1 uptime',
  ])
    it(`needs no change: ${words}`, () => expect(() => checkRemoteCommand(words.split(' '), 'run')).not.to.throw())
})
