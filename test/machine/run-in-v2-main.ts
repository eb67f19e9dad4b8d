import { checkout } from '../support/host/systemd-machine.js'
import { V2Machine } from '../support/host/v2-machine.js'

/* Runs test files in a virtual machine that has only cgroup v2: `run-in-v2-main.ts FILE...` */

const machine = await V2Machine.create('btest-v2-run')
try {
  await machine.start()
  const mocha = 'cd "$0" && exec node_modules/.bin/mocha --timeout 1800000 "$@"'
  process.exitCode = machine.show('sh', '-c', mocha, checkout, ...process.argv.slice(2))
} finally {
  await machine.destroy()
}
