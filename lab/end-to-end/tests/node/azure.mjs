// The Azure Function with a message of the event hub that has LINE twice.
import forward from "../../../../infra/edge/azure/forward/index.mjs";

const line = JSON.parse(process.env.LINE);
await forward({ log: console }, [{ records: [line, line] }, { records: [{ ...line, category: "FrontDoorHealthProbeLog" }] }]);
