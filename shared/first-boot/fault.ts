/** Why first-boot data is refused; whoever checks a field adds its name. */
export class FirstBootFault extends Error {}
